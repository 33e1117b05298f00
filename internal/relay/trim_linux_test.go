package relay

import (
	"bytes"
	"crypto/tls"
	"reflect"
	"strings"
	"testing"
	"time"
	"unsafe"
)

// TestTLSBuffersAreFound pins the places inside crypto/tls: a Go release that moves them must fail here, not in use.
func TestTLSBuffersAreFound(t *testing.T) {
	if !tlsBuffers.known {
		t.Error("tls.Conn has other fields than expected: idle TLS sessions keep their buffers")
	}
	other := reflect.StructOf([]reflect.StructField{ // a package path, since the names are not exported
		{Name: "rawInput", PkgPath: "tls", Type: reflect.TypeFor[bytes.Buffer]()},
		{Name: "hand", PkgPath: "tls", Type: reflect.TypeFor[[]byte]()},
		{Name: "input", PkgPath: "tls", Type: reflect.TypeFor[bytes.Reader]()},
	})
	if findTLSBuffers(other).known || findTLSBuffers(reflect.TypeFor[struct{}]()).known {
		t.Error("found in a type that is not a tls.Conn")
	}
}

func TestIdleTLSSessionsAreTrimmed(t *testing.T) {
	b := newBench(t, Config{})
	conn, up := b.upstreamTLS()
	p := b.join(b.park(Upstream{Conn: conn}, newRecorder()), up, Client{})
	big := strings.Repeat("x", 100_000)
	p.up.SendText(big)
	p.cl.ExpectText(big)
	size := func() (n int) {
		p.l.call(func() { n = (*bytes.Buffer)(unsafe.Add(unsafe.Pointer(conn), tlsBuffers.rawInput)).Cap() })
		return n
	}
	if size() == 0 {
		t.Fatal("the buffer is not where it is looked for")
	}
	late := time.Now().Add(5 * time.Second)
	for size() != 0 {
		if time.Now().After(late) {
			t.Fatalf("still %d bytes", size())
		}
		time.Sleep(50 * time.Millisecond)
	}
	p.up.SendText(big) // and it works on
	p.cl.ExpectText(big)
	if trimTLS(&tls.Conn{}) != true {
		t.Error("an empty connection is not trimmed")
	}
}
