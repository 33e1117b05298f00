package dialect

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/gobwas/ws"

	"github.com/rtd-project/rtd/internal/wire"
)

// Class is what kind of failure kept a session from becoming ready.
type Class uint8

// The classes.
const (
	ClassNone      Class = iota // no failure, or the dial was given up by its caller
	ClassAuth                   // the credential is not accepted
	ClassRateLimit              // too many requests for now
	ClassQuota                  // the account has nothing left
	ClassNotFound               // no such model or path
	ClassTimeout                // no answer in time
	ClassRefused                // the host cannot be reached
	ClassProtocol               // the answer is not what a realtime server says
	ClassUpstream               // any other refusal of the upstream
	ClassClosed                 // the connection ended early
	ClassConfig                 // the upstream refuses what a session is to be configured with

	numClasses
)

var classNames = [numClasses]string{
	"none", "auth", "rate_limit", "quota", "not_found", "timeout", "refused", "protocol", "upstream", "closed", "config",
}

// String returns the class's stable name.
func (c Class) String() string {
	if c < numClasses {
		return classNames[c]
	}
	return "unknown"
}

// Classify returns the class of an error of a dial or of a session's first moments, and how long the upstream asked to
// be left alone; 0 if it did not. It looks through wrapping.
func Classify(err error) (Class, time.Duration) {
	var status *wire.StatusError
	if errors.As(err, &status) {
		return classifyStatus(status), status.RetryAfter
	}
	var upstream *UpstreamError
	var preset *PresetError
	switch {
	case err == nil:
		return ClassNone, 0
	case errors.As(err, &upstream) && errors.As(err, &preset):
		return classifyPreset(upstream), 0
	case upstream != nil:
		return classifyUpstream(upstream), 0
	case errors.Is(err, wire.ErrBadHandshake):
		return ClassProtocol, 0
	case isTimeout(err):
		return ClassTimeout, 0
	case errors.Is(err, context.Canceled):
		return ClassNone, 0
	}
	return classifyNetwork(err), 0
}

func classifyStatus(e *wire.StatusError) Class {
	switch e.Status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return ClassAuth
	case http.StatusNotFound:
		return ClassNotFound
	}
	r := detailReader{ev: EventError}
	body := cursor{b: e.Body}
	body.object(func(key []byte) bool { return r.root(key, &body) })
	class := codeClass(r.ErrorCode)
	switch {
	case e.Status == http.StatusTooManyRequests && class != ClassQuota:
		return ClassRateLimit
	case e.Status < 500 && class != ClassNone:
		return class
	}
	return ClassUpstream
}

// codeClass returns the class that a provider's error code stands for; ClassNone when it stands for none.
func codeClass(code string) Class {
	if i := strings.LastIndexByte(code, '.'); i >= 0 { // invalid_request_error.invalid_api_key
		code = code[i+1:]
	}
	switch code {
	case "invalid_api_key", "account_deactivated", "authentication_error", "permission_error":
		return ClassAuth
	case "insufficient_quota", "billing_hard_limit_reached":
		return ClassQuota
	case "rate_limit_exceeded", "rate_limit_error":
		return ClassRateLimit
	case "model_not_found":
		return ClassNotFound
	case "beta_api_shape_disabled":
		return ClassProtocol
	case "session_expired":
		return ClassClosed
	}
	return ClassNone
}

func classifyUpstream(e *UpstreamError) Class {
	if c := codeClass(e.Code); c != ClassNone {
		return c
	}
	if c := reasonClass(e.Message); c != ClassNone {
		return c
	}
	if e.Code != "" {
		return ClassUpstream
	}
	return closeClass(e.Close)
}

// classifyPreset is classifyUpstream for the answer to a preset. What no code names otherwise is an objection to the preset,
// for which some servers only close the session; the message may quote the preset, so its words count for nothing.
func classifyPreset(e *UpstreamError) Class {
	switch c := codeClass(e.Code); {
	case c != ClassNone:
		return c
	case e.Code == "server_error":
		return ClassUpstream
	case e.Code != "", e.Close == ws.StatusNormalClosure, e.Close == ws.StatusInvalidFramePayloadData:
		return ClassConfig
	}
	return classifyUpstream(e)
}

// closeClass reads the code of a Close whose reason said nothing; the reason comes first because many servers choose
// their codes freely.
func closeClass(code ws.StatusCode) Class {
	switch code {
	case 3000, ws.StatusPolicyViolation: // 3000 is "unauthorized" in IANA's registry
		return ClassAuth
	case 4000, ws.StatusProtocolError, ws.StatusUnsupportedData, ws.StatusInvalidFramePayloadData, ws.StatusMessageTooBig, ws.StatusMandatoryExt:
		return ClassProtocol
	case ws.StatusInternalServerError, 1012, 1013: // 1012 "service restart", 1013 "try again later"
		return ClassUpstream
	}
	return ClassClosed
}

// reasonClass looks for an error code in a text, and then for the words that providers use instead.
func reasonClass(reason string) Class {
	reason = strings.ToLower(reason)
	for word := range strings.FieldsFuncSeq(reason, func(r rune) bool { return strings.ContainsRune(" \t:;,()'\"", r) }) {
		if c := codeClass(word); c != ClassNone {
			return c
		}
	}
	for _, m := range []struct {
		words string
		class Class
	}{
		{"quota", ClassQuota},
		{"billing", ClassQuota},
		{"rate limit", ClassRateLimit},
		{"too many", ClassRateLimit},
		{"api key", ClassAuth},
		{"unauthorized", ClassAuth},
		{"model not found", ClassNotFound},
	} {
		if strings.Contains(reason, m.words) {
			return m.class
		}
	}
	return ClassNone
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) ||
		errors.As(err, &timeout) && timeout.Timeout()
}

func classifyNetwork(err error) Class {
	var (
		dns    *net.DNSError
		record tls.RecordHeaderError
		op     *net.OpError
		verify *tls.CertificateVerificationError
		name   x509.HostnameError
		root   x509.UnknownAuthorityError
		proxy  *wire.ProxyError
	)
	switch {
	case errors.As(err, &op) && op.Op == "remote error", // how crypto/tls wraps an alert, whose type it keeps to itself
		errors.As(err, &record), errors.As(err, &verify), errors.As(err, &name), errors.As(err, &root):
		return ClassProtocol
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, net.ErrClosed):
		return ClassClosed
	case errors.As(err, &dns), errors.As(err, &proxy), errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return ClassRefused
	}
	return ClassUpstream
}
