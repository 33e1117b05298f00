package dialect

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/gobwas/ws"

	"github.com/rtd-project/rtd/internal/wire"
)

func TestClassify(t *testing.T) {
	f := func(err error, want Class) {
		t.Helper()
		for _, e := range []error{err, fmt.Errorf("tls: %w", err)} {
			if err == nil {
				e = nil
			}
			if got, after := Classify(e); got != want || after != 0 {
				t.Errorf("%v is %v, retry after %v; want %v", e, got, after, want)
			}
		}
	}
	status := func(code int, body string) error { return &wire.StatusError{Status: code, Body: []byte(body)} }
	f(nil, ClassNone)
	f(context.Canceled, ClassNone)
	f(status(401, ""), ClassAuth)
	f(status(403, `{"error":{"code":"model_not_found"}}`), ClassAuth)
	f(status(404, ""), ClassNotFound)
	f(status(429, ""), ClassRateLimit)
	f(status(429, `{"error":{"type":"insufficient_quota","code":"insufficient_quota"}}`), ClassQuota)
	f(status(429, `{"error":{"code":"model_not_found"}}`), ClassRateLimit)
	f(status(400, `{"error":{"code":"invalid_api_key","message":"m"}}`), ClassAuth)
	f(status(400, `{"error":{"code":"model_not_found"`), ClassNotFound)
	f(status(400, `<html>`), ClassUpstream)
	f(status(301, ""), ClassUpstream)
	f(status(200, ""), ClassUpstream)
	f(status(500, ""), ClassUpstream)
	f(status(503, `{"error":{"code":"invalid_api_key"}}`), ClassUpstream)

	f(&UpstreamError{Code: "invalid_api_key"}, ClassAuth)
	f(&UpstreamError{Code: "invalid_request_error.invalid_api_key"}, ClassAuth)
	f(&UpstreamError{Code: "account_deactivated"}, ClassAuth)
	f(&UpstreamError{Code: "insufficient_quota"}, ClassQuota)
	f(&UpstreamError{Code: "billing_hard_limit_reached"}, ClassQuota)
	f(&UpstreamError{Code: "rate_limit_exceeded"}, ClassRateLimit)
	f(&UpstreamError{Code: "model_not_found"}, ClassNotFound)
	f(&UpstreamError{Code: "session_expired"}, ClassClosed)
	f(&UpstreamError{Code: "server_error", Message: "boom"}, ClassUpstream)
	f(&UpstreamError{Code: "error", Message: "You exceeded your current quota"}, ClassQuota)

	f(&UpstreamError{Close: 3000, Message: "invalid_request_error.invalid_api_key"}, ClassAuth)
	f(&UpstreamError{Close: 3000}, ClassAuth)
	f(&UpstreamError{Close: 4000, Message: "invalid_request_error.beta_api_shape_disabled"}, ClassProtocol)
	f(&UpstreamError{Close: 4000}, ClassProtocol)
	f(&UpstreamError{Close: ws.StatusPolicyViolation}, ClassAuth)
	f(&UpstreamError{Close: ws.StatusPolicyViolation, Message: "Rate limit reached."}, ClassRateLimit)
	f(&UpstreamError{Close: ws.StatusInvalidFramePayloadData, Message: "API key expired."}, ClassAuth)
	f(&UpstreamError{Close: ws.StatusInvalidFramePayloadData}, ClassProtocol)
	f(&UpstreamError{Close: ws.StatusInternalServerError, Message: "quota exceeded"}, ClassQuota)
	f(&UpstreamError{Close: ws.StatusInternalServerError}, ClassUpstream)
	f(&UpstreamError{Close: ws.StatusNormalClosure}, ClassClosed)
	f(&UpstreamError{Close: ws.StatusGoingAway, Message: "maximum duration of 60 minutes"}, ClassClosed)
	f(&UpstreamError{Close: ws.StatusNoStatusRcvd}, ClassClosed)
	f(&UpstreamError{Message: "connection closed without a Close frame"}, ClassClosed)
	f(&UpstreamError{}, ClassClosed)

	preset := func(e UpstreamError) error { return &PresetError{"p", &e} }
	f(preset(UpstreamError{Code: "invalid_value", Message: "too many tools, over quota"}), ClassConfig)
	f(preset(UpstreamError{Code: "error", Message: "no such voice"}), ClassConfig)
	f(preset(UpstreamError{Close: ws.StatusNormalClosure}), ClassConfig)
	f(preset(UpstreamError{Close: ws.StatusInvalidFramePayloadData, Message: "invalid argument"}), ClassConfig)
	f(preset(UpstreamError{Code: "server_error"}), ClassUpstream)
	f(preset(UpstreamError{Code: "rate_limit_exceeded"}), ClassRateLimit)
	f(preset(UpstreamError{Code: "session_ended"}), ClassConfig)
	f(preset(UpstreamError{Close: 3000}), ClassAuth)
	f(preset(UpstreamError{Close: ws.StatusGoingAway}), ClassClosed)
	f(&PresetError{"p", context.DeadlineExceeded}, ClassTimeout)
	f(&PresetError{"p", io.EOF}, ClassClosed)

	f(wire.ErrBadHandshake, ClassProtocol)
	f(context.DeadlineExceeded, ClassTimeout)
	f(os.ErrDeadlineExceeded, ClassTimeout)
	f(&net.DNSError{Err: "i/o timeout", IsTimeout: true}, ClassTimeout)
	f(&net.DNSError{Err: "no such host", IsNotFound: true}, ClassRefused)
	f(&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}, ClassRefused)
	f(&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EHOSTUNREACH)}, ClassRefused)
	f(&net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}, ClassClosed)
	f(&wire.ProxyError{Status: 407}, ClassRefused)
	f(io.EOF, ClassClosed)
	f(io.ErrUnexpectedEOF, ClassClosed)
	f(&net.OpError{Op: "remote error", Err: tls.AlertError(40)}, ClassProtocol)
	f(tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}, ClassProtocol)
	f(&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, ClassProtocol)
	f(errors.New("anything else"), ClassUpstream)
}

func TestCaseC3RetryAfterIsPassedOn(t *testing.T) {
	err := fmt.Errorf("upgrade: %w", &wire.StatusError{Status: 429, RetryAfter: 7 * time.Second})
	if class, after := Classify(err); class != ClassRateLimit || after != 7*time.Second {
		t.Errorf("%v, %v", class, after)
	}
}

func TestRefusedPortIsRefused(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	_, err = net.Dial("tcp", addr)
	if class, _ := Classify(err); err == nil || class != ClassRefused {
		t.Errorf("%v is %v", err, class)
	}
}

func TestClassesHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for c := range numClasses {
		if s := c.String(); s == "" || s == "unknown" || seen[s] {
			t.Errorf("class %d is named %q", c, s)
		}
		seen[c.String()] = true
	}
	if numClasses.String() != "unknown" {
		t.Error("a value beyond the last has a name")
	}
}

func TestUpstreamErrorText(t *testing.T) {
	f := func(e UpstreamError, want string) {
		t.Helper()
		if got := e.Error(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	f(UpstreamError{Code: "c", Message: "m"}, "upstream sent error c: m")
	f(UpstreamError{Close: 3000, Message: "m"}, "upstream closed the session with 3000: m")
	f(UpstreamError{Message: "m"}, "upstream ended the session: m")
}
