package relay

import (
	"bytes"
	"crypto/tls"
	"reflect"
	"unsafe"
)

// tlsBuffers are the places in a tls.Conn of the buffers it never gives back: rawInput, which grows to the largest
// record, and hand, which held the handshake. input reads from rawInput's memory.
var tlsBuffers = findTLSBuffers(reflect.TypeFor[tls.Conn]())

type tlsOffsets struct {
	rawInput, hand, input uintptr
	known                 bool
}

// findTLSBuffers looks for the buffers in t. They are not known unless names and types are those expected: then a tls.Conn
// is left as it is.
func findTLSBuffers(t reflect.Type) (o tlsOffsets) {
	o.known = true
	find := func(name string, want reflect.Type) uintptr {
		f, ok := t.FieldByName(name)
		if !ok || f.Type != want || len(f.Index) != 1 {
			o.known = false
		}
		return f.Offset
	}
	buffer := reflect.TypeFor[bytes.Buffer]()
	o.rawInput, o.hand = find("rawInput", buffer), find("hand", buffer)
	o.input = find("input", reflect.TypeFor[bytes.Reader]())
	return o
}

// trimTLS gives back the buffers of an idle c whose last Read found nothing. Nobody else may be using c. It reports
// whether it did.
func trimTLS(c *tls.Conn) bool {
	if !tlsBuffers.known {
		return false
	}
	at := func(offset uintptr) unsafe.Pointer { return unsafe.Add(unsafe.Pointer(c), offset) }
	rawInput, hand := (*bytes.Buffer)(at(tlsBuffers.rawInput)), (*bytes.Buffer)(at(tlsBuffers.hand))
	if (*bytes.Reader)(at(tlsBuffers.input)).Len() != 0 || rawInput.Len() != 0 || hand.Len() != 0 {
		return false
	}
	*rawInput, *hand = bytes.Buffer{}, bytes.Buffer{}
	return true
}
