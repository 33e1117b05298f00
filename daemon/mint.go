package daemon

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/rtd-project/rtd/internal/auth"
	"github.com/rtd-project/rtd/internal/dialect"
	"github.com/rtd-project/rtd/internal/wire"
	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

// mintRequest is the one plain HTTP request of the data address: a backend mints a token for its browser.
var mintRequest = wire.Plain{Method: http.MethodPost, Path: "/v1/realtime/client_secrets", MaxBody: 16 << 10}

// mintBody is the provider's, and what rtd adds: preset, origin and max_uses.
type mintBody struct {
	ExpiresAfter *struct {
		Anchor  string `json:"anchor"`
		Seconds int64  `json:"seconds"`
	} `json:"expires_after"`
	Session map[string]json.RawMessage `json:"session"`
	Preset  string                     `json:"preset"`
	Origin  string                     `json:"origin"`
	MaxUses int                        `json:"max_uses"`
}

const mintFields = "expires_after, session, preset, origin and max_uses"

// mintAnswer is the provider's, as far as rtd knows the session.
type mintAnswer struct {
	Value     string      `json:"value"`
	ExpiresAt int64       `json:"expires_at"`
	Session   mintSession `json:"session"`
}

type mintSession struct {
	Type   string `json:"type"`
	Object string `json:"object"`
	Model  string `json:"model"`
}

// serveMint answers a request for a token.
func (d *Daemon) serveMint(set *settings, conn net.Conn, req *wire.Request) {
	hidden := d.redact.Hide(credentialOf(req))
	defer hidden.Release()
	who, answer, err := set.mint(req, time.Now())
	if err != nil {
		r := refuse(err)
		d.refusals.add(r.code)
		d.log.Info("token refused", d.shown("client", remote(conn), "key", who.KeyName(), "status", r.status, "code", r.code, "error", err)...)
		wire.WriteError(conn, r.status, r.code, r.message, r.header())
		return
	}
	d.log.Info("token minted", "client", remote(conn), "key", who.KeyName(), "model", answer.Session.Model, "expires", time.Unix(answer.ExpiresAt, 0))
	body, err := json.Marshal(answer)
	if err != nil {
		d.log.Error("token lost", "error", err)
		return
	}
	wire.WriteJSON(conn, http.StatusOK, body, http.Header{"Cache-Control": {"no-store"}})
}

func (set *settings) mint(req *wire.Request, now time.Time) (who auth.Identity, a mintAnswer, err error) {
	if _, err = set.origin(req); err != nil {
		return who, a, err
	}
	if who, err = set.identify(req, now); err != nil {
		return who, a, err
	}
	wish, err := set.readWish(req.Body)
	if err != nil {
		return who, a, err
	}
	minted, err := set.auth.Mint(who, wish, now)
	if err != nil {
		return who, a, err
	}
	return who, mintAnswer{minted.Value, minted.ExpiresAt.Unix(), mintSession{"realtime", "realtime.session", wish.Model}}, nil
}

func badMint(format string, args ...any) error {
	return &refusal{status: http.StatusBadRequest, code: "invalid_request", message: fmt.Sprintf(format, args...)}
}

// kinds says in the words of JSON what a field of mintBody must be.
var kinds = map[reflect.Kind]string{reflect.String: "a string", reflect.Int: "a whole number", reflect.Int64: "a whole number"}

// badBody says what is wrong with a body without a word of how it is read here.
func badBody(err error) error {
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		what := cmp.Or(kinds[e.Type.Kind()], "an object")
		if e.Field == "" {
			return badMint("the body must be a JSON object, with any of %s", mintFields)
		}
		return badMint("%.80s must be %s; correct it or leave it out", e.Field, what)
	}
	if e, ok := errors.AsType[*json.SyntaxError](err); ok {
		return badMint("the body is not JSON at its byte %d; correct it, or send none", e.Offset)
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return badMint("the field %.80s is unknown; leave it out: there are %s", name, mintFields)
	}
	return badMint("the body is not whole JSON; correct it, or send none")
}

// readWish reads a body. What it asks of the session beyond its model cannot be applied and is refused: a backend that
// believes its instructions are in force must learn that they are not.
func (set *settings) readWish(body []byte) (wish auth.Wish, err error) {
	var b mintBody
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&b); err != nil && !(errors.Is(err, io.EOF) && len(bytes.TrimSpace(body)) == 0) {
		return wish, badBody(err)
	}
	if _, err := d.Token(); err != io.EOF {
		return wish, badMint("the body goes on behind its JSON object; send one object alone")
	}
	if name := repeated(body); name != "" {
		return wish, badMint("the field %.80q is given more than once, which others may read differently; keep one", name)
	}
	wish = auth.Wish{Preset: b.Preset, Origin: b.Origin, Uses: b.MaxUses}
	if e := b.ExpiresAfter; e != nil {
		if e.Anchor != "" && e.Anchor != "created_at" {
			return wish, badMint("expires_after.anchor can only be created_at; leave it out or name that")
		}
		if e.Seconds < 1 || e.Seconds > math.MaxInt32 {
			return wish, badMint("expires_after.seconds is out of range; ask for 1 or more, within the longest life of a token here")
		}
		wish.TTL = time.Duration(e.Seconds) * time.Second
	}
	for name, raw := range b.Session {
		var value string
		switch err := json.Unmarshal(raw, &value); {
		case name == "type" && err == nil && value == "realtime":
		case name == "model" && err == nil:
			wish.Model = value
		case name == "type":
			return wish, badMint("session.type can only be realtime; leave it out or name that")
		case name == "model":
			return wish, badMint("session.model must be a string; name a model")
		default:
			return wish, badMint("session.%.40s is not applied by the gateway; leave it out and send it in a session.update, or name a preset", name)
		}
	}
	return set.checkWish(wish)
}

// repeated is the name of a member that an object in valid JSON has twice, whatever its case, as it is read here; "" for none.
// What a token is bound to must not depend on which of the two counts.
func repeated(body []byte) string {
	d := json.NewDecoder(bytes.NewReader(body))
	var seen []map[string]bool // by depth; nil in an array
	isName := false            // the next token, if it is a string
	for {
		t, err := d.Token()
		if err != nil {
			return ""
		}
		switch name, isString := t.(string); {
		case t == json.Delim('{'):
			seen = append(seen, map[string]bool{})
		case t == json.Delim('['):
			seen = append(seen, nil)
		case t == json.Delim('}'), t == json.Delim(']'):
			seen = seen[:len(seen)-1]
		case isName && isString:
			if name = strings.ToLower(strings.ToUpper(name)); seen[len(seen)-1][name] {
				return name
			}
			seen[len(seen)-1][name], isName = true, false
			continue
		}
		isName = len(seen) > 0 && seen[len(seen)-1] != nil
	}
}

// checkWish refuses a token that would open nothing here. A model that is the only one need not be named.
func (set *settings) checkWish(wish auth.Wish) (auth.Wish, error) {
	if models := set.routes.models(); wish.Model == "" {
		if len(models) != 1 {
			return wish, badMint("session.model is missing; name one of: %s", strings.Join(models, ", "))
		}
		wish.Model = models[0]
	}
	ask := dialect.Ask{Model: wish.Model, Preset: wish.Preset}
	r, _, err := set.routes.find(ask)
	if err == nil {
		_, err = r.presetOf(ask)
	}
	if err != nil {
		return wish, err
	}
	if wish.Origin != "" && !slices.Contains(set.cfg.AllowedOrigins, wish.Origin) {
		return wish, badMint("origin %.80q is not among the gateway's allowed origins; list it there", wish.Origin)
	}
	return wish, nil
}

func (s *daemonService) MintToken(_ context.Context, req *rtdv1.MintTokenRequest) (*rtdv1.MintTokenResponse, error) {
	set := s.d.current()
	wish := auth.Wish{Model: req.GetModel(), Preset: req.GetPreset(), Origin: req.GetOrigin(), Uses: int(req.GetUses())}
	if req.GetTtl() != nil {
		if wish.TTL = req.GetTtl().AsDuration(); wish.TTL <= 0 {
			return nil, status.Errorf(codes.InvalidArgument, "ttl %v is not positive; ask for 1s or more", wish.TTL)
		}
	}
	wish, err := set.checkWish(wish)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, refuse(err).message)
	}
	minted, err := set.auth.MintFor(req.GetKey(), wish, time.Now())
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	s.d.log.Info("token minted by an operator", "key", minted.Key, "model", wish.Model, "expires", minted.ExpiresAt)
	return &rtdv1.MintTokenResponse{Value: minted.Value, ExpiresAt: timestamppb.New(minted.ExpiresAt)}, nil
}
