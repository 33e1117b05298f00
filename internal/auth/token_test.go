package auth

import (
	"encoding/base64"
	"strings"
	"sync"
	"testing"
	"time"
)

// mint makes a token with a key of a.
func mint(t *testing.T, a *Auth, credential string, wish Wish) string {
	t.Helper()
	id, err := a.Identify(credential, now)
	if err != nil {
		t.Fatal(err)
	}
	m, err := a.Mint(id, wish, now)
	if err != nil {
		t.Fatal(err)
	}
	return m.Value
}

func TestATokenOpensWhatItWasMintedFor(t *testing.T) {
	a := mustNew(t, Config{Keys: []Key{key("web")}})
	token := mint(t, a, "sk-test-web", Wish{Model: "m", Origin: "https://app.example", Uses: 2})
	if strings.Contains(token, "web") || strings.Trim(token, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != "" {
		t.Errorf("token %q is not one run of characters that every form allows", token)
	}
	want := Admission{Model: "m", Origin: "https://app.example"}
	f := func(reason Reason, want Admission) {
		t.Helper()
		_, err := open(t, a, token, want, now)
		expect(t, err, reason)
	}
	f(ReasonModel, Admission{Model: "other", Origin: want.Origin})
	f(ReasonModel, Admission{Origin: want.Origin})
	f(ReasonOrigin, Admission{Model: "m"})
	f(ReasonOrigin, Admission{Model: "m", Origin: "https://app.example.evil.example"})
	bound := mint(t, a, "sk-test-web", Wish{Model: "m", Preset: "p", Uses: 9})
	for _, preset := range []string{"", "other"} {
		_, err := open(t, a, bound, Admission{Model: "m", Preset: preset}, now)
		expect(t, err, ReasonPreset)
	}
	if id, err := a.Identify(bound, now); err != nil || id.Preset() != "p" {
		t.Errorf("%+v, %v", id, err)
	}
	grant, err := open(t, a, bound, Admission{Model: "m", Preset: "p"}, now)
	if err != nil {
		t.Fatal(err)
	}
	grant.Release(true)

	id, err := a.Identify(token, now)
	if err != nil || id.KeyName() != "web" || id.token == nil {
		t.Fatalf("%+v, %v", id, err)
	}
	_, err = a.Mint(id, Wish{Model: "m"}, now)
	expect(t, err, ReasonTokenUnusable)

	first, err := open(t, a, token, want, now)
	if err != nil {
		t.Fatal(err)
	}
	second, err := open(t, a, token, want, now)
	if err != nil {
		t.Fatal(err)
	}
	f(ReasonTokenUsed, want)
	first.Release(true) // an opened session has used it up
	f(ReasonTokenUsed, want)
	second.Release(false) // one that came to nothing has not
	if _, err := open(t, a, token, want, now); err != nil {
		t.Error(err)
	}
	f(ReasonTokenUsed, want)
	if n := a.sessions()["web"]; n != 1 {
		t.Errorf("%d sessions of the key, want 1", n)
	}
}

func TestATokenHasItsTime(t *testing.T) {
	secret := []byte(strings.Repeat("s", MinSecret))
	a := mustNew(t, Config{Keys: []Key{key("web")}, Tokens: Tokens{Secret: secret, DefaultTTL: time.Minute, MaxTTL: time.Hour}})
	token := mint(t, a, "sk-test-web", Wish{Model: "m", Uses: MaxUses})
	f := func(at time.Time, want Reason) {
		t.Helper()
		_, err := open(t, a, token, Admission{Model: "m"}, at)
		if want == granted {
			if err != nil {
				t.Errorf("after %v: %v", at.Sub(now), err)
			}
			return
		}
		expect(t, err, want)
	}
	f(now, granted)
	f(now.Add(time.Minute), granted)
	f(now.Add(time.Minute+skew-time.Second), granted)
	f(now.Add(time.Minute+skew), ReasonTokenExpired)
	f(now.Add(-skew), granted)
	f(now.Add(-skew-time.Second), ReasonTokenInvalid)

	shorter, err := a.With(Config{Keys: []Key{key("web")}, Tokens: Tokens{Secret: secret, MaxTTL: 30 * time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = shorter.Identify(token, now)
	expect(t, err, ReasonTokenInvalid) // lives longer than may be
}

func TestATokenEndsWithItsKeyAndItsSecret(t *testing.T) {
	a := mustNew(t, Config{Keys: []Key{key("web"), key("other")}})
	token := mint(t, a, "sk-test-web", Wish{Model: "m"})
	f := func(cfg Config, want Reason) {
		t.Helper()
		b, err := a.With(cfg)
		if err != nil {
			t.Fatal(err)
		}
		_, err = b.Identify(token, now)
		if want == granted {
			if err != nil {
				t.Error(err)
			}
			return
		}
		expect(t, err, want)
	}
	f(Config{Keys: []Key{key("web")}}, granted)
	f(Config{Keys: []Key{key("other")}}, ReasonTokenInvalid)
	f(Config{Keys: []Key{{Name: "web", Digest: DigestOf("sk-test-rotated")}}}, ReasonTokenInvalid)
	f(Config{}, ReasonTokenInvalid)
	f(Config{Keys: []Key{key("web", func(k *Key) { k.ExpiresAt = now })}}, ReasonKeyExpired)
	f(Config{Keys: []Key{key("web")}, Tokens: Tokens{Secret: []byte(strings.Repeat("s", MinSecret))}}, ReasonTokenInvalid)
	_, err := mustNew(t, Config{Keys: []Key{key("web")}}).Identify(token, now)
	expect(t, err, ReasonTokenInvalid) // another process has another random secret

	anyone := mint(t, mustNew(t, Config{Tokens: Tokens{Secret: []byte(strings.Repeat("s", MinSecret))}}), "", Wish{Model: "m"})
	_, err = mustNew(t, Config{Keys: []Key{key("web")}, Tokens: Tokens{Secret: []byte(strings.Repeat("s", MinSecret))}}).Identify(anyone, now)
	expect(t, err, ReasonTokenInvalid) // minted when no key was needed
}

func TestMintBounds(t *testing.T) {
	a := mustNew(t, Config{
		Keys: []Key{key("web", func(k *Key) {
			k.Models = []string{"m", strings.Repeat("m", 257), "\"<>&"}
			k.ExpiresAt = now.Add(time.Minute)
		})},
		Tokens: Tokens{MaxTTL: time.Hour},
	})
	id, err := a.Identify("sk-test-web", now)
	if err != nil {
		t.Fatal(err)
	}
	m, err := a.Mint(id, Wish{Model: "m"}, now)
	if err != nil || !m.ExpiresAt.Equal(now.Add(time.Minute).Truncate(time.Second)) {
		t.Errorf("%v, %v: no token outlives its key", m.ExpiresAt, err)
	}
	f := func(want Reason, wish Wish) {
		t.Helper()
		_, err := a.Mint(id, wish, now)
		expect(t, err, want)
	}
	f(ReasonModel, Wish{Model: "other"})
	f(ReasonModel, Wish{})
	f(ReasonMint, Wish{Model: strings.Repeat("m", 257)})
	f(ReasonMint, Wish{Model: "m", TTL: time.Hour + time.Second})
	f(ReasonMint, Wish{Model: "m", TTL: time.Millisecond})
	f(ReasonMint, Wish{Model: "m", TTL: -time.Second})
	f(ReasonMint, Wish{Model: "m", Uses: -1})
	f(ReasonMint, Wish{Model: "m", Uses: MaxUses + 1})
	f(ReasonMint, Wish{Model: "m", Origin: strings.Repeat("o", 257)})
	f(ReasonMint, Wish{Model: "m", Origin: "a\nb"})
	if _, err := a.Mint(id, Wish{Model: "\"<>&", Origin: strings.Repeat("o", 256)}, now); err != nil {
		t.Error(err)
	}
	f(ReasonMint, Wish{Model: "m", Origin: strings.Repeat("<", 256)}) // too long once it is escaped
}

func TestMintingCountsAsConnecting(t *testing.T) {
	a := mustNew(t, Config{Keys: []Key{key("web", func(k *Key) { k.ConnectsPerSecond = 1 })}})
	id, err := a.Identify("sk-test-web", now)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Mint(id, Wish{Model: "m"}, now); err != nil {
		t.Fatal(err)
	}
	_, err = a.Mint(id, Wish{Model: "m"}, now)
	expect(t, err, ReasonRate)
	_, err = a.Admit(id, Admission{Model: "m"}, now)
	expect(t, err, ReasonRate)
}

func TestMintForAnOperator(t *testing.T) {
	f := func(cfg Config, name, want string) {
		t.Helper()
		a := mustNew(t, cfg)
		m, err := a.MintFor(name, Wish{Model: "m"}, now)
		if want != "" {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v, want %q", name, err, want)
			}
			return
		}
		if err != nil {
			t.Errorf("%q: %v", name, err)
		} else if _, err := a.Identify(m.Value, now); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	two := Config{Keys: []Key{key("one"), key("two", func(k *Key) { k.ExpiresAt = now })}}
	f(Config{}, "", "")
	f(Config{}, "one", "no such key")
	f(Config{Keys: two.Keys[:1]}, "", "")
	f(two, "one", "")
	f(two, "", "one, two")
	f(two, "three", "one, two")
	f(two, "two", "expired")
	f(Config{PassThrough: true}, "", "cannot")
}

func TestAForgedTokenIsNone(t *testing.T) {
	a := mustNew(t, Config{Keys: []Key{key("web")}})
	token := mint(t, a, "sk-test-web", Wish{Model: "m"})
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(token, TokenPrefix))
	if err != nil {
		t.Fatal(err)
	}
	f := func(forged string) {
		t.Helper()
		_, err := a.Identify(forged, now)
		expect(t, err, ReasonTokenInvalid)
	}
	for i := range raw {
		changed := append([]byte(nil), raw...)
		changed[i] ^= 1
		f(TokenPrefix + base64.RawURLEncoding.EncodeToString(changed))
	}
	f(TokenPrefix)
	f(token + "A")
	f(token[:len(token)-1])
	f(token + "=")
	f(token + "\n")
	f(TokenPrefix + strings.Repeat("A", maxToken))
	if _, err := a.Identify(token, now); err != nil {
		t.Error(err)
	}
}

func TestTokensInUseAreBoundedAndForgotten(t *testing.T) {
	a := mustNew(t, Config{Tokens: Tokens{DefaultTTL: time.Minute}})
	a.uses.limit = 10
	use := func(at time.Time) error {
		m, err := a.MintFor("", Wish{Model: "m"}, at)
		if err != nil {
			t.Fatal(err)
		}
		_, err = open(t, a, m.Value, Admission{Model: "m"}, at)
		return err
	}
	for range 10 {
		if err := use(now); err != nil {
			t.Fatal(err)
		}
	}
	if d := expect(t, use(now), ReasonTokenLoad); d.RetryAfter <= 0 {
		t.Error("no Retry-After")
	}
	expect(t, use(now.Add(time.Minute)), ReasonTokenLoad) // the clocks of others may lag
	later := now.Add(time.Minute + skew)
	if err := use(later); err != nil {
		t.Error(err)
	}
	if n := len(a.uses.used); n != 1 {
		t.Errorf("%d remembered, want 1", n)
	}
	if n := a.sessions()[""]; n != 11 {
		t.Errorf("%d sessions, want 11: those refused count for nothing", n)
	}
}

func TestUsesOfATokenUnderConcurrency(t *testing.T) {
	a := mustNew(t, Config{})
	m, err := a.MintFor("", Wish{Model: "m", Uses: 5}, now)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	opened := make(chan *Grant, 100)
	for range 100 {
		wg.Go(func() {
			if g, err := open(t, a, m.Value, Admission{Model: "m"}, now); err == nil {
				opened <- g
			}
		})
	}
	wg.Wait()
	if len(opened) != 5 {
		t.Errorf("%d sessions, want 5", len(opened))
	}
}

func FuzzToken(f *testing.F) {
	a, err := New(Config{Keys: []Key{key("web")}, Tokens: Tokens{Secret: []byte(strings.Repeat("s", MinSecret))}})
	if err != nil {
		f.Fatal(err)
	}
	m, err := a.MintFor("web", Wish{Model: "m"}, now)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(strings.TrimPrefix(m.Value, TokenPrefix))
	f.Add("")
	f.Add("AAAA")
	f.Fuzz(func(t *testing.T, body string) {
		token := TokenPrefix + body
		id, err := a.Identify(token, now)
		if err == nil { // another process of the fuzzer made it: then it is one whole token and no other text for it
			again, err := a.signer.sign(*id.token)
			if err != nil || again != token || id.KeyName() != "web" {
				t.Fatalf("%q was taken for the token %q", token, again)
			}
		}
		if err != nil && len(body) > 3 && strings.Contains(err.Error(), body) {
			t.Fatalf("the error holds the token: %v", err)
		}
	})
}

// What is signed by this very process can still be of another version: it must not be misread.
func FuzzClaims(f *testing.F) {
	s := signer{[]byte(strings.Repeat("s", MinSecret))}
	f.Add(`{"i":"AAAAAAAAAAAAAAAA","m":"m","u":1,"n":1,"e":2}`)
	f.Add(`{"i":"AAAA","m":"m","u":1,"n":1,"e":2}`)
	f.Add(`{"i":"AAAAAAAAAAAAAAAA","m":"m","p":"p","u":1,"n":1,"e":2}`)
	f.Add(`{"i":"AAAAAAAAAAAAAAAA","z":1}`)
	f.Fuzz(func(t *testing.T, payload string) {
		token := TokenPrefix + base64.RawURLEncoding.EncodeToString(append(s.mac(labelToken, []byte(payload)), payload...))
		c, ok := s.read(token)
		if ok && len(c.ID) != len(tokenID{}) {
			t.Fatalf("an id of %d bytes", len(c.ID))
		}
	})
}

func TestATokenWithoutAKeyOpensNothingOnceAClientMustBringSomething(t *testing.T) {
	a := mustNew(t, Config{})
	token := mint(t, a, "", Wish{Model: "m", Uses: 9})
	if _, err := open(t, a, token, Admission{Model: "m"}, now); err != nil {
		t.Fatal(err)
	}
	for _, cfg := range []Config{{PassThrough: true}, {Keys: []Key{key("web")}}, {PassThrough: true, Keys: []Key{key("web")}}} {
		b, err := a.With(cfg)
		if err != nil {
			t.Fatal(err)
		}
		_, err = b.Identify(token, now)
		expect(t, err, ReasonTokenInvalid)
	}
}
