package bench

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"
	"unicode"

	"github.com/gobwas/ws"

	"github.com/rtd-project/rtd/internal/dialect"
	"github.com/rtd-project/rtd/internal/wire"
)

var errTimeout = errors.New("timeout")

// refusedError is an event that ended what was waited for.
type refusedError struct {
	event        dialect.Event
	code, status string
}

func (e *refusedError) Error() string {
	switch {
	case e.event == dialect.EventResponseDone:
		return "response " + word(e.status, "done") + " without audio"
	case e.event == dialect.EventSessionEnd:
		return "session ended"
	}
	return "error event " + word(e.code, "without a code")
}

// word is what a server called something, when that is a short plain word: it goes into reports.
func word(s, otherwise string) string {
	if s == "" || len(s) > 64 || strings.ContainsFunc(s, func(r rune) bool { return r > unicode.MaxASCII || !unicode.IsPrint(r) }) {
		return otherwise
	}
	return s
}

// fail classes why a call failed, by the step it failed in and the kind of error: few and stable names, without a word of
// what differs from call to call.
func (s *sample) fail(ctx context.Context, step string, err error) {
	s.ours = exhausted(err)
	s.cause = step + ": " + cause(ctx, err)
}

func cause(ctx context.Context, err error) string {
	var (
		status  *wire.StatusError
		refused *refusedError
		end     *closedError
		broken  *wire.ProtocolError
		lookup  *net.DNSError
		unknown x509.UnknownAuthorityError
		cert    *tls.CertificateVerificationError
		no      syscall.Errno
	)
	switch {
	case exhausted(err):
		errors.As(err, &no)
		return "generator: " + no.Error()
	case errors.Is(context.Cause(ctx), errTimeout):
		return "timeout"
	case errors.As(err, &status):
		return strings.TrimRight(fmt.Sprintf("status %d %s", status.Status, http.StatusText(status.Status)), " ")
	case errors.As(err, &refused):
		return refused.Error()
	case errors.As(err, &end):
		if end.code == ws.StatusAbnormalClosure {
			return "closed without a Close frame"
		}
		return fmt.Sprintf("closed with %d", end.code)
	case errors.As(err, &broken):
		return "broken framing"
	case errors.Is(err, wire.ErrBadHandshake):
		return "invalid answer to the upgrade"
	case errors.Is(err, wire.ErrBadRequest):
		return err.Error()
	case errors.As(err, &lookup):
		return "host not found"
	case errors.As(err, &unknown):
		return "certificate of an authority that is not trusted here; --ca names it"
	case errors.As(err, &cert):
		return "certificate not trusted"
	case errors.As(err, &no):
		return no.Error()
	}
	return "other"
}

// exhausted reports whether this host ran out of what a connection needs: descriptors, ports or memory.
func exhausted(err error) bool {
	for _, no := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.EADDRNOTAVAIL, syscall.ENOBUFS, syscall.ENOMEM} {
		if errors.Is(err, no) {
			return true
		}
	}
	return false
}
