// Package wiretest has raw, scripted peers for tests: a Client and an Upstream that put exactly the bytes on the wire
// that a test asks for and read frames more strictly than RFC 6455 demands of a browser.
//
// Its frame code is independent of package wire and of every WebSocket library, so that it can judge them. Every
// wait has a deadline (Peer.Timeout), every failure fails the test that made the peer, and everything is closed and
// waited for by the test's cleanup.
//
// The methods that take no error back end the calling goroutine when they fail. Those that begin with Try return an
// error instead and are for goroutines of the test's own.
package wiretest

import (
	"encoding/hex"
	"strings"
	"testing"
)

// The notation of the field cases.
const (
	// HS is a valid upgrade request; Key is its nonce and Accept the one right answer to it.
	HS = "GET /v1/realtime?model=mock HTTP/1.1\r\n" +
		"Host: x\r\n" +
		"Connection: Upgrade\r\n" +
		"Upgrade: websocket\r\n" +
		"Sec-WebSocket-Version: 13\r\n" +
		"Sec-WebSocket-Key: " + Key + "\r\n\r\n"
	Key    = "dGhlIHNhbXBsZSBub25jZQ=="
	Accept = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
	// Hello is the masked text frame "Hello" in hex.
	Hello = "81 85 37 fa 21 3d 7f 9f 4d 51 58"
	// Z is a mask of zeros in hex.
	Z = "00 00 00 00"
	// SessionCreated is the first frame's payload of the handler Ready.
	SessionCreated = `{"type":"session.created","event_id":"event_1","session":{"id":"sess_1","object":"realtime.session"}}`
)

// HSWith returns HS with more header lines, each without its CRLF, and, when target is not empty, another target.
func HSWith(target string, lines ...string) string {
	hs := HS
	if target != "" {
		_, rest, _ := strings.Cut(hs, " HTTP/1.1\r\n")
		hs = "GET " + target + " HTTP/1.1\r\n" + rest
	}
	hs = strings.TrimSuffix(hs, "\r\n")
	for _, line := range lines {
		hs += line + "\r\n"
	}
	return hs + "\r\n"
}

// Hex decodes hex digits; white space between them is ignored.
func Hex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		t.Fatalf("wiretest: %q: %v", s, err)
	}
	return b
}
