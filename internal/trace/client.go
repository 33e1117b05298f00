package trace

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// path is where a receiver takes traces (OTLP 1.x, OTLP/HTTP request).
const path = "/v1/traces"

// maxAnswer bounds what is read of a receiver's answer.
const maxAnswer = 64 << 10

// retryError is a failure that may pass.
type retryError struct {
	err   error
	after time.Duration // what the receiver asked for
}

func (e *retryError) Error() string { return e.err.Error() }
func (e *retryError) Unwrap() error { return e.err }

// partialError is a request of which the receiver did not take all.
type partialError struct{ refused int }

func (e *partialError) Error() string { return fmt.Sprintf("the receiver refused %d spans", e.refused) }

// client is an otlptrace.Client over HTTP. OpenTelemetry's own reads variables of the environment that would be a second
// way to say what the configuration says, and links a gateway from HTTP to gRPC into the program.
type client struct {
	url    string
	header http.Header
	http   *http.Client
}

func newClient(cfg Config) *client {
	u := *cfg.Endpoint
	u.Path = strings.TrimSuffix(strings.TrimSuffix(u.Path, "/"), path) + path
	return &client{
		url:    u.String(),
		header: cfg.Header,
		http: &http.Client{
			Transport: &http.Transport{
				Proxy:           cfg.Proxy,
				TLSClientConfig: &tls.Config{RootCAs: cfg.RootCAs, MinVersion: tls.VersionTLS12},
				MaxConnsPerHost: 1,
				IdleConnTimeout: 30 * time.Second,
			},
			// The headers are for this receiver and no other.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

func (*client) Start(context.Context) error { return nil }

func (*client) Stop(context.Context) error { return nil }

// UploadTraces sends one request. Its error is a *retryError where it is worth another.
func (c *client) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	// An ExportTraceServiceRequest by another name: the two are the same on the wire.
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	for name, values := range c.header {
		req.Header[name] = values
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	req.Header.Set("User-Agent", "rtd")
	resp, err := c.http.Do(req)
	if err != nil {
		return &retryError{err: plain(err)}
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	switch {
	case err != nil:
		return &retryError{err: fmt.Errorf("read the answer: %w", err)}
	case resp.StatusCode/100 == 2:
		return partial(answer)
	}
	err = fmt.Errorf("the receiver answers %s", resp.Status)
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return &retryError{err, retryAfter(resp.Header)}
	}
	return err
}

// plain is err without the URL, which is the configuration's and stands beside it in the log.
func plain(err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}

func retryAfter(h http.Header) time.Duration {
	seconds, err := strconv.ParseUint(h.Get("Retry-After"), 10, 16)
	if err != nil {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

// partial reads an ExportTraceServiceResponse: the count of refused spans is field 1 of the message in field 1.
func partial(answer []byte) error {
	inner := field(answer, protowire.BytesType)
	if inner == nil {
		return nil
	}
	success, n := protowire.ConsumeBytes(inner)
	if n < 0 {
		return nil
	}
	if refused, n := protowire.ConsumeVarint(field(success, protowire.VarintType)); n > 0 && refused > 0 {
		return &partialError{int(min(refused, 1<<30))}
	}
	return nil
}

// field returns what follows the tag of field 1 in a message, nil when there is none of that type.
func field(message []byte, want protowire.Type) []byte {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return nil
		}
		message = message[n:]
		if number == 1 && kind == want {
			return message
		}
		if n = protowire.ConsumeFieldValue(number, kind, message); n < 0 {
			return nil
		}
		message = message[n:]
	}
	return nil
}
