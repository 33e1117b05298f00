package auth

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// now is a moment with a fraction: tokens know whole seconds only.
var now = time.Unix(1_800_000_000, 500_000_000)

func key(name string, more ...func(*Key)) Key {
	k := Key{Name: name, Digest: DigestOf("sk-test-" + name)}
	for _, m := range more {
		m(&k)
	}
	return k
}

func mustNew(t *testing.T, cfg Config) *Auth {
	t.Helper()
	a, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// sessions counts those that are open by the name of their key; clients without one are "".
func (a *Auth) sessions() map[string]int {
	all := map[string]int{"": int(a.anyone.sessions.Load())}
	a.accounts.mu.Lock()
	defer a.accounts.mu.Unlock()
	for _, k := range a.cfg.Keys {
		all[k.Name] = int(a.accounts.of(&k).sessions.Load())
	}
	return all
}

// expect checks that err denies for a reason, and returns it.
func expect(t *testing.T, err error, want Reason) *DeniedError {
	t.Helper()
	denied, ok := errors.AsType[*DeniedError](err)
	if !ok || denied.Reason != want {
		t.Fatalf("%v, want %q", err, reasonTexts[want])
	}
	return denied
}

// open identifies and admits.
func open(t *testing.T, a *Auth, credential string, want Admission, at time.Time) (*Grant, error) {
	t.Helper()
	id, err := a.Identify(credential, at)
	if err != nil {
		return nil, err
	}
	return a.Admit(id, want, at)
}

func TestWhoACredentialIs(t *testing.T) {
	a := mustNew(t, Config{Keys: []Key{key("one"), key("two", func(k *Key) { k.ExpiresAt = now })}})
	id, err := a.Identify("sk-test-one", now)
	if err != nil || id.KeyName() != "one" || id.PassThrough() || id.token != nil {
		t.Errorf("%+v, %v", id, err)
	}
	if _, err := a.Identify("sk-test-two", now.Add(-time.Second)); err != nil {
		t.Errorf("before its end: %v", err)
	}
	f := func(credential string, want Reason) {
		t.Helper()
		_, err := a.Identify(credential, now)
		expect(t, err, want)
		if credential != "" && strings.Contains(err.Error(), credential) {
			t.Errorf("the error holds the credential: %v", err)
		}
	}
	f("", ReasonNoCredential)
	f("sk-test-on", ReasonUnknownKey)
	f("sk-test-one ", ReasonUnknownKey)
	f("sk-test-two", ReasonKeyExpired)
	f("ek_rtd_nonsense", ReasonTokenInvalid)
}

func TestWithoutKeysEverybodyIsLetIn(t *testing.T) {
	a := mustNew(t, Config{})
	for _, credential := range []string{"", "sk-test-any"} {
		if _, err := open(t, a, credential, Admission{Model: "m"}, now); err != nil || !a.Open() {
			t.Errorf("%q: %v", credential, err)
		}
	}
	_, err := a.Identify("ek_rtd_forged", now) // what says that it is a token must be one
	expect(t, err, ReasonTokenInvalid)
}

func TestPassThroughTakesWhatIsNoKeyOfTheGateway(t *testing.T) {
	a := mustNew(t, Config{PassThrough: true, Keys: []Key{key("one")}})
	id, err := a.Identify("sk-test-theirs", now)
	if err != nil || !id.PassThrough() || id.KeyName() != "" || a.Open() || a.PassesAll() {
		t.Errorf("%+v, %v", id, err)
	}
	if id, err = a.Identify("sk-test-one", now); err != nil || id.PassThrough() {
		t.Errorf("%+v, %v", id, err)
	}
	_, err = a.Identify("", now)
	expect(t, err, ReasonNoCredential)
	_, err = mustNew(t, Config{PassThrough: true}).Identify("", now)
	expect(t, err, ReasonNoCredential)
	for _, token := range []string{"ek_rtd_forged", "EK_RTD_forged", "ek_rtd_"} { // never upstream
		_, err = a.Identify(token, now)
		expect(t, err, ReasonTokenInvalid)
	}
}

func TestModelsOfAKey(t *testing.T) {
	a := mustNew(t, Config{Keys: []Key{key("some", func(k *Key) { k.Models = []string{"a", "b"} }), key("all")}})
	f := func(credential, model string, want bool) {
		t.Helper()
		if _, err := open(t, a, credential, Admission{Model: model}, now); (err == nil) != want {
			t.Errorf("%s, model %q: %v", credential, model, err)
		} else if err != nil {
			expect(t, err, ReasonModel)
		}
	}
	f("sk-test-some", "a", true)
	f("sk-test-some", "b", true)
	f("sk-test-some", "c", false)
	f("sk-test-some", "", false) // a call_id or an intent is no model of the key's
	f("sk-test-all", "c", true)
	f("sk-test-all", "", true)
}

func TestSessionsOfAKeyAreBoundedAcrossReloads(t *testing.T) {
	cfg := Config{Keys: []Key{key("one", func(k *Key) { k.MaxSessions = 2 }), key("other")}}
	a := mustNew(t, cfg)
	first, err := open(t, a, "sk-test-one", Admission{}, now)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = open(t, a, "sk-test-one", Admission{}, now); err != nil {
		t.Fatal(err)
	}
	_, err = open(t, a, "sk-test-one", Admission{}, now)
	if d := expect(t, err, ReasonSessions); d.Key != "one" || d.RetryAfter <= 0 {
		t.Errorf("%+v", d)
	}
	if _, err = open(t, a, "sk-test-other", Admission{}, now); err != nil {
		t.Errorf("another key: %v", err)
	}
	without, err := a.With(Config{Keys: cfg.Keys[1:]})
	if err != nil {
		t.Fatal(err)
	}
	b, err := without.With(cfg)
	if err != nil {
		t.Fatal(err)
	}
	_, err = open(t, b, "sk-test-one", Admission{}, now)
	expect(t, err, ReasonSessions)
	first.Release(true)
	first.Release(true) // the second time is nothing
	if _, err = open(t, b, "sk-test-one", Admission{}, now); err != nil {
		t.Errorf("after a release: %v", err)
	}
	_, err = open(t, b, "sk-test-one", Admission{}, now)
	expect(t, err, ReasonSessions)
	if n := b.sessions(); n["one"] != 2 || n["other"] != 1 || n[""] != 0 {
		t.Errorf("%v", n)
	}
}

func TestConnectsOfAKeyAreBounded(t *testing.T) {
	a := mustNew(t, Config{Keys: []Key{key("one", func(k *Key) { k.ConnectsPerSecond, k.Burst = 2, 3 })}})
	at := now
	connect := func() error {
		_, err := open(t, a, "sk-test-one", Admission{}, at)
		return err
	}
	for range 3 {
		if err := connect(); err != nil {
			t.Fatal(err)
		}
	}
	if d := expect(t, connect(), ReasonRate); d.RetryAfter != 500*time.Millisecond {
		t.Errorf("told to wait %v", d.RetryAfter)
	}
	at = at.Add(499 * time.Millisecond)
	expect(t, connect(), ReasonRate)
	at = at.Add(time.Millisecond)
	if err := connect(); err != nil {
		t.Error(err)
	}
	at = at.Add(time.Hour) // never more than the burst
	for range 3 {
		if err := connect(); err != nil {
			t.Error(err)
		}
	}
	expect(t, connect(), ReasonRate)
	if n := a.sessions()["one"]; n != 7 {
		t.Errorf("%d sessions, want 7: a connect that was refused counts for nothing", n)
	}
}

func TestARaisedRateAppliesToWhatIsOwed(t *testing.T) {
	limited := func(rate float64, burst int) Config {
		return Config{Keys: []Key{key("one", func(k *Key) { k.ConnectsPerSecond, k.Burst = rate, burst })}}
	}
	a := mustNew(t, limited(0.01, 5))
	at := now
	connect := func() error {
		_, err := open(t, a, "sk-test-one", Admission{}, at)
		return err
	}
	reload := func(rate float64, burst int) {
		t.Helper()
		var err error
		if a, err = a.With(limited(rate, burst)); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(want time.Duration) {
		t.Helper()
		if d := expect(t, connect(), ReasonRate); d.RetryAfter != want {
			t.Errorf("told to wait %v, want %v", d.RetryAfter, want)
		}
	}
	connects := func(n int) {
		t.Helper()
		for i := range n {
			if err := connect(); err != nil {
				t.Fatalf("connect %d: %v", i+1, err)
			}
		}
	}
	connects(5)
	refused(100 * time.Second)
	reload(10, 5) // what is owed comes back sooner
	refused(100 * time.Millisecond)
	reload(10, 8) // and more may be owed
	connects(3)
	refused(100 * time.Millisecond)
	reload(1, 2) // what is owed beyond the burst is let go
	refused(time.Second)
	reload(0, 0)
	connects(20)
	reload(1, 2)
	refused(time.Second)
	at = at.Add(2 * time.Second)
	connects(2)
	refused(time.Second)
}

func TestAKeyKeepsItsCountsWhenItIsGoneForAWhileOrRenamed(t *testing.T) {
	at := time.Now() // forget looks at the clock
	named := func(name string) Config {
		return Config{Keys: []Key{key("other"), {Name: name, Digest: DigestOf("sk-test-one"), MaxSessions: 2, ConnectsPerSecond: 0.001, Burst: 3}}}
	}
	a := mustNew(t, named("one"))
	var grants []*Grant
	for range 2 {
		g, err := open(t, a, "sk-test-one", Admission{}, at)
		if err != nil {
			t.Fatal(err)
		}
		grants = append(grants, g)
	}
	denied := func(cfg Config, want Reason) {
		t.Helper()
		var err error
		if a, err = a.With(cfg); err != nil {
			t.Fatal(err)
		}
		_, err = open(t, a, "sk-test-one", Admission{}, at)
		expect(t, err, want)
	}
	without := Config{Keys: []Key{key("other")}}
	denied(without, ReasonUnknownKey)
	denied(named("one"), ReasonSessions) // the third connect
	denied(named("renamed"), ReasonRate)
	for _, g := range grants {
		g.Release(true)
	}
	denied(without, ReasonUnknownKey)
	denied(named("one"), ReasonRate) // without a session, what it owes is still kept
	denied(without, ReasonUnknownKey)
	if n := len(a.accounts.all); n != 1 {
		t.Errorf("%d accounts, want that of the key that owes", n)
	}
	a.accounts.forget(without.Keys, at.Add(time.Hour))
	if n := len(a.accounts.all); n != 0 {
		t.Errorf("%d accounts are kept that say nothing", n)
	}
}

func TestConfigFaults(t *testing.T) {
	f := func(want string, cfg Config) {
		t.Helper()
		_, err := New(cfg)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want one line with %q", err, want)
		}
	}
	one := func(change func(*Key)) Config { return Config{Keys: []Key{key("one", change)}} }
	f("its name must be", one(func(k *Key) { k.Name = "" }))
	f("its name must be", one(func(k *Key) { k.Name = "with space" }))
	f("its name must be", one(func(k *Key) { k.Name = strings.Repeat("a", 65) }))
	f("has this name", Config{Keys: []Key{key("one"), {Name: "one", Digest: DigestOf("x")}}})
	f(`the same key as "one"`, Config{Keys: []Key{key("one"), {Name: "two", Digest: DigestOf("sk-test-one")}}})
	f("it is empty", one(func(k *Key) { k.Digest = DigestOf("") }))
	f("it is empty", one(func(k *Key) { k.Digest = Digest{} }))
	f("max_sessions -1", one(func(k *Key) { k.MaxSessions = -1 }))
	f("connects_per_second", one(func(k *Key) { k.ConnectsPerSecond = -1 }))
	f("connects_per_second", one(func(k *Key) { k.ConnectsPerSecond = 1e7 }))
	f("burst", one(func(k *Key) { k.Burst = -1 }))
	f("models", one(func(k *Key) { k.Models = []string{""} }))
	f("at least 32", Config{Tokens: Tokens{Secret: []byte("short")}})
	f("max_ttl", Config{Tokens: Tokens{DefaultTTL: time.Second, MaxTTL: -1}})
	f("default_ttl", Config{Tokens: Tokens{DefaultTTL: time.Hour, MaxTTL: time.Minute}})
	if _, err := New(Config{Tokens: Tokens{MaxTTL: time.Minute}}); err != nil {
		t.Errorf("the default life must fit a short bound: %v", err)
	}
}

func TestParseDigest(t *testing.T) {
	const sum = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae" // of "foo"
	for _, s := range []string{sum, strings.ToUpper(sum)} {
		if d, err := ParseDigest(s); err != nil || d != DigestOf("foo") {
			t.Errorf("%s: %v", s, err)
		}
	}
	for _, s := range []string{"", "foo", sum[1:], sum + "00", "x" + sum[1:]} {
		if _, err := ParseDigest(s); err == nil || s != "" && strings.Contains(err.Error(), s) {
			t.Errorf("%q: %v", s, err)
		}
	}
}

func TestSealed(t *testing.T) {
	s := Seal("sk-test-sealed")
	if strings.Contains(string(s.box), "test") || s.Open() != "sk-test-sealed" || (Sealed{}).Open() != "" {
		t.Errorf("%q opens as %q", s.box, s.Open())
	}
}

func BenchmarkIdentify(b *testing.B) {
	var keys []Key
	for range 100 {
		keys = append(keys, Key{Name: "k" + strings.Repeat("x", len(keys)%60), Digest: DigestOf(strings.Repeat("a", len(keys)+1))})
	}
	a := &Auth{cfg: Config{Keys: keys}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := a.Identify("a", now); err != nil {
			b.Fatal(err)
		}
	}
}
