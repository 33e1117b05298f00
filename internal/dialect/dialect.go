// Package dialect is everything the gateway knows about a provider: how its handshake is rendered, which frames make a
// session ready, what its events mean and how its errors are classed. The rest of the tree names no provider; a new one
// is one more file here.
//
// A Dialect is stateless and safe for concurrent use. ServerEvent, ClientEvent and ResponseID look at a bounded piece of
// a message, allocate nothing, never modify or keep what they are given, and are right for every valid JSON object whose
// keys are unique; anything else gives some event, never a panic. Strings in a Detail and in an UpstreamError come from
// the upstream and may hold secrets: the caller redacts them before they reach a log or a client.
package dialect

import (
	"bytes"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/gobwas/ws"
)

// Dialect is one provider's ways.
type Dialect interface {
	// Name is the word the configuration uses: "openai", "compatible".
	Name() string
	// Defaults are the pool ages that suit the provider.
	Defaults() Defaults
	// Target renders the handshake for ask against up. Its errors are an *AskError for what the client did wrong, and
	// plain ones, wrapping ErrUpstream, for an upstream that cannot be dialled as configured.
	Target(up Upstream, ask Ask) (Target, error)
	// NewReady returns the judge of the first frames of one connection.
	NewReady() Ready
	// Preset renders the payload of the one text message that asks a ready session for what p says, and returns the judge
	// of the messages that answer it.
	Preset(p *Preset) (message []byte, answer Ready)
	// ServerEvent and ClientEvent classify a message by its first bytes and, when its end is in hand, its last; tail may
	// overlap head.
	ServerEvent(head, tail []byte) Event
	ClientEvent(head, tail []byte) Event
	// Opening returns how head begins if only messages of event ev begin so, and it is one of the few ways in which most
	// write them; else a zero Opening.
	Opening(ev Event, head []byte) Opening
	// ResponseID returns the response a server event belongs to, as a part of head or tail; nil if it does not say.
	ResponseID(head, tail []byte) []byte
	// WantsDetail says whether Detail has something to read from a message with this event.
	WantsDetail(Event) bool
	// Detail reads a message from its first and last bytes; last is nil when first is the whole message. What was cut
	// away is left zero.
	Detail(ev Event, first, last []byte) Detail
	// LossEvent is the text payload that tells a client, before its Close, that the upstream was lost; nil for none.
	LossEvent() []byte
	// ExpiryEvent is the text payload that tells a client that the gateway will end its session in so long; nil for none.
	ExpiryEvent(left time.Duration) []byte
}

// Opening is how messages begin: with Prefix and, where Infix is not empty, then a string without a quotation mark in it
// and Infix, which begins with the one that ends the string.
type Opening struct{ Prefix, Infix string }

// opens reports whether head begins so.
func (o Opening) opens(head []byte) bool {
	rest, ok := bytes.CutPrefix(head, []byte(o.Prefix))
	if !ok || o.Infix == "" {
		return ok
	}
	end := bytes.IndexByte(rest, '"')
	return end >= 0 && bytes.HasPrefix(rest[end:], []byte(o.Infix))
}

// Defaults are the ages of a pool that suit a provider; zero means no limit.
type Defaults struct {
	// MaxIdle is how long a session may wait for a client.
	MaxIdle time.Duration
	// MaxAge is how old a session may be when it is handed out.
	MaxAge time.Duration
	// MinRemaining is how much of a session's own lifetime must be left when it is handed out.
	MinRemaining time.Duration
}

// Upstream is one configured upstream.
type Upstream struct {
	// Dialect is the provider's name; see Names.
	Dialect string
	// Name is what people call this upstream. Default: the dialect's name.
	Name string
	// BaseURL has scheme ws, wss, http or https, with or without the realtime path and a query. nil: the provider's own
	// address, where it has one.
	BaseURL *url.URL
	// Credential is the secret sent as a Bearer token; "" sends none.
	Credential string
	// Organization, Project and SafetyIdentifier are sent in the headers of those names when set.
	Organization, Project, SafetyIdentifier string
	// Beta asks for the beta shape of the protocol with an OpenAI-Beta header.
	Beta bool
	// Model is the model's name at the upstream. "": the name the client used.
	Model string
}

// Target is a rendered handshake. Header belongs to the caller; it holds the credential.
type Target struct {
	URL          *url.URL // ws or wss
	Header       http.Header
	Subprotocols []string
	// Preset is what sessions of this target are configured with once they are ready; nil for nothing. See With.
	Preset *Preset
	// Key is equal for two targets exactly when nothing in their handshakes and presets differs. It reveals nothing of the
	// inputs and holds for this process only.
	Key string
	// Name is for people and not unique: "openai/gpt-realtime".
	Name string
	// Bypass says in words why a session of this target may not be pooled; "" when it may.
	Bypass string
}

// Ready judges the frames that follow the 101 of one connection, or a request. Frame is called once per whole data message,
// in order, until it returns done or an error. payload is only read during the call. err is an *UpstreamError.
type Ready interface {
	Frame(op ws.OpCode, payload []byte) (done bool, info SessionInfo, err error)
}

// SessionInfo is what the upstream said about a session as it became ready.
type SessionInfo struct {
	ID        string
	ExpiresAt time.Time // zero: never
}

// Detail is what a message says beside its event. Fields the message does not have are zero.
type Detail struct {
	ResponseID, SessionID   string
	Status, StatusReason    string
	ErrorCode, ErrorMessage string
	Answers                 string // id of the client's event that an error answers
	ExpiresAt               time.Time
	Usage                   Usage
}

// Usage counts the tokens of a response.
type Usage struct {
	Input, Output, Total                           int64
	InputText, InputAudio, InputImage, InputCached int64
	OutputText, OutputAudio                        int64
}

var registry = map[string]Dialect{}

// register adds a dialect; each provider's file does so once, as the program starts.
func register(d Dialect) { registry[d.Name()] = d }

// Lookup returns the dialect of that name.
func Lookup(name string) (Dialect, bool) {
	d, ok := registry[name]
	return d, ok
}

// Names returns the names of all dialects, sorted.
func Names() []string { return slices.Sorted(maps.Keys(registry)) }
