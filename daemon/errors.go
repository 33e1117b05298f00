package daemon

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"syscall"
	"time"

	"github.com/rtd-project/rtd/internal/auth"
	"github.com/rtd-project/rtd/internal/dialect"
	"github.com/rtd-project/rtd/internal/relay"
	"github.com/rtd-project/rtd/internal/wire"
	"github.com/rtd-project/rtd/pool"
)

// refusal is the HTTP answer to a client that gets no session.
type refusal struct {
	status     int
	code       string // stable, for programs
	message    string // one line, for people: what and what to do
	retryAfter time.Duration
}

func (r *refusal) Error() string { return fmt.Sprintf("%d %s: %s", r.status, r.code, r.message) }

// header renders what goes beside the body. Retry-After is in whole seconds, rounded up, at least one (RFC 9110 §10.2.3).
func (r *refusal) header() http.Header {
	h := http.Header{}
	if r.status == http.StatusUnauthorized { // RFC 9110 §15.5.2
		h.Set("WWW-Authenticate", "Bearer")
	}
	if r.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(r.retryAfter.Seconds()))))
	}
	return h
}

// drainRetryAfter is what a client that meets a draining or full daemon is told to wait.
const drainRetryAfter = 5 * time.Second

var (
	errDraining      = &refusal{http.StatusServiceUnavailable, "draining", "the gateway is draining; connect again", drainRetryAfter}
	errAtCapacity    = &refusal{http.StatusServiceUnavailable, "at_capacity", "every upstream connection is in use; connect again", drainRetryAfter}
	errMaxSessions   = &refusal{http.StatusServiceUnavailable, "at_capacity", "the gateway has as many sessions open as it may; connect again", drainRetryAfter}
	errHandshakes    = &refusal{http.StatusServiceUnavailable, "too_many_handshakes", "too many clients are connecting; connect again", drainRetryAfter}
	errNoMemory      = &refusal{http.StatusServiceUnavailable, "out_of_memory", "the gateway is short of memory; connect again", drainRetryAfter}
	errNoDescriptors = &refusal{http.StatusServiceUnavailable, "out_of_descriptors", "the gateway is short of file descriptors; connect again", drainRetryAfter}
	errNotReady      = &refusal{http.StatusGatewayTimeout, "upstream_timeout", "the upstream was not ready in time; connect again", 0}
	errNoPath        = &refusal{http.StatusNotFound, "unknown_path", "no such path; realtime sessions are at /v1/realtime", 0}
	errBadOrigin     = &refusal{http.StatusForbidden, "origin_not_allowed", "this origin may not connect; list it in the gateway's allowed origins", 0}
	errClientSecret  = &refusal{http.StatusUnauthorized, "invalid_api_key", "a client secret of the provider is not taken for this model; present an API key or a token of the gateway, or set allow_client_secrets on the gateway's route", 0}
	errCallPreset    = &refusal{http.StatusBadRequest, "invalid_parameter", "a preset does not go with call_id, whose session is configured already; leave one of them out", 0}
	errMisplaced     = &refusal{http.StatusBadRequest, "invalid_parameter", "a query parameter or an OpenAI-* header holds a token or the API key, and would go to the provider; present it in an Authorization header alone", 0}
	errInternal      = &refusal{http.StatusInternalServerError, "internal_error", "the gateway failed; see its log", 0}
)

// denials is what a client that auth does not let in is told.
var denials = map[auth.Reason]refusal{
	auth.ReasonNoCredential:  {http.StatusUnauthorized, "invalid_api_key", "the API key is missing; present one in an Authorization header", 0},
	auth.ReasonUnknownKey:    {http.StatusUnauthorized, "invalid_api_key", "the API key is unknown to the gateway", 0},
	auth.ReasonKeyExpired:    {http.StatusUnauthorized, "api_key_expired", "the API key has expired", 0},
	auth.ReasonTokenInvalid:  {http.StatusUnauthorized, "invalid_token", "the token is not valid at this gateway; mint another", 0},
	auth.ReasonTokenExpired:  {http.StatusUnauthorized, "token_expired", "the token has expired; mint another", 0},
	auth.ReasonTokenUsed:     {http.StatusUnauthorized, "token_used", "the token has opened all the sessions it was minted for; mint another", 0},
	auth.ReasonTokenUnusable: {http.StatusForbidden, "key_required", "a token is minted with an API key of the gateway", 0},
	auth.ReasonTokenLoad:     {http.StatusServiceUnavailable, "too_many_tokens", "too many tokens are in use; connect again", 0},
	auth.ReasonModel:         {http.StatusForbidden, "model_not_allowed", "this credential may not use this model", 0},
	auth.ReasonPreset:        {http.StatusForbidden, "preset_not_allowed", "the token was minted for another preset", 0},
	auth.ReasonOrigin:        {http.StatusForbidden, "origin_not_allowed", "the token was minted for another origin", 0},
	auth.ReasonRate:          {http.StatusTooManyRequests, "rate_limit_exceeded", "this API key connects too often; connect again later", 0},
	auth.ReasonSessions:      {http.StatusTooManyRequests, "too_many_sessions", "this API key has as many sessions open as it may; close one", 0},
	auth.ReasonMint:          {http.StatusBadRequest, "invalid_request", "", 0},
}

// refuseDenied renders the answer to a client that auth does not let in.
func refuseDenied(d *auth.DeniedError) *refusal {
	r := denials[d.Reason]
	r.retryAfter = d.RetryAfter
	if r.message == "" {
		r.message = d.Detail
	}
	return &r
}

// upstreamRefusals is the 101 policy: what a class of dial error becomes for the client that waited for that dial.
var upstreamRefusals = map[dialect.Class]refusal{
	dialect.ClassAuth:      {http.StatusBadGateway, "upstream_auth_failed", "the upstream refused the gateway's credential", 0},
	dialect.ClassNotFound:  {http.StatusNotFound, "upstream_not_found", "the upstream does not know this model or path", 0},
	dialect.ClassRateLimit: {http.StatusTooManyRequests, "upstream_rate_limited", "the upstream limits new sessions; connect again later", 0},
	dialect.ClassQuota:     {http.StatusTooManyRequests, "upstream_quota_exceeded", "the upstream account is out of quota", 0},
	dialect.ClassTimeout:   *errNotReady,
	dialect.ClassRefused:   {http.StatusBadGateway, "upstream_unreachable", "the upstream cannot be reached", 0},
	dialect.ClassProtocol:  {http.StatusBadGateway, "upstream_protocol_error", "the upstream did not answer as a realtime server", 0},
	dialect.ClassUpstream:  {http.StatusBadGateway, "upstream_failed", "the upstream failed to open a session", 0},
	dialect.ClassConfig:    {http.StatusBadGateway, "upstream_preset_refused", "the upstream refused the preset of the gateway; its log says why", 0},
	dialect.ClassClosed:    {http.StatusBadGateway, "upstream_closed", "the upstream closed the new session at once", 0},
}

// poolClasses maps what a dialect says of an error to what a pool does about it.
var poolClasses = map[dialect.Class]pool.Class{
	dialect.ClassAuth:      pool.ClassAuth,
	dialect.ClassNotFound:  pool.ClassNotFound,
	dialect.ClassRateLimit: pool.ClassRateLimited,
	dialect.ClassQuota:     pool.ClassQuota,
	dialect.ClassTimeout:   pool.ClassTimeout,
	dialect.ClassRefused:   pool.ClassRefused,
	dialect.ClassProtocol:  pool.ClassProtocol,
	dialect.ClassClosed:    pool.ClassEarlyDeath,
	dialect.ClassConfig:    pool.ClassConfig,
}

// refuse turns any error of the path from accept to 101 into the answer the client gets. The cause stays in the log.
func refuse(err error) *refusal {
	var r *refusal
	if errors.As(err, &r) {
		return r
	}
	var denied *auth.DeniedError
	if errors.As(err, &denied) {
		return refuseDenied(denied)
	}
	var req *wire.RequestError
	if errors.As(err, &req) {
		return &refusal{req.Status, req.Code, req.Message, 0}
	}
	var ask *dialect.AskError
	if errors.As(err, &ask) {
		return &refusal{ask.Status, ask.Code, ask.Message, 0}
	}
	switch {
	case errors.Is(err, pool.ErrExhausted):
		return errAtCapacity
	case errors.Is(err, pool.ErrClosed):
		return errDraining
	case errors.Is(err, relay.ErrResources), errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return errNoDescriptors // ours, not the upstream's
	case errors.Is(err, context.DeadlineExceeded):
		return errNotReady
	}
	class, after := dialect.Classify(err)
	var dial *pool.DialError
	if errors.As(err, &dial) && dial.RetryAfter > 0 {
		after = dial.RetryAfter
	}
	if r, ok := upstreamRefusals[class]; ok {
		r.retryAfter = after
		return &r
	}
	return errInternal
}
