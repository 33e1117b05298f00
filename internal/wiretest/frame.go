package wiretest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// Opcodes of RFC 6455 section 5.2.
const (
	Continuation = 0x0
	Text         = 0x1
	Binary       = 0x2
	Close        = 0x8
	Ping         = 0x9
	Pong         = 0xa
)

// maxPayload keeps a broken length from eating the test machine's memory.
const maxPayload = 64 << 20

// Frame is one frame, its payload unmasked.
type Frame struct {
	Fin     bool
	Op      byte
	Masked  bool
	Mask    [4]byte
	Payload []byte
}

// Append renders the frame behind dst, with its payload masked if Masked is set.
func (f Frame) Append(dst []byte) []byte {
	b0 := f.Op
	if f.Fin {
		b0 |= 0x80
	}
	var mask byte
	if f.Masked {
		mask = 0x80
	}
	n := len(f.Payload)
	switch {
	case n < 126:
		dst = append(dst, b0, mask|byte(n))
	case n <= 0xffff:
		dst = append(dst, b0, mask|126)
		dst = binary.BigEndian.AppendUint16(dst, uint16(n))
	default:
		dst = append(dst, b0, mask|127)
		dst = binary.BigEndian.AppendUint64(dst, uint64(n))
	}
	if !f.Masked {
		return append(dst, f.Payload...)
	}
	dst = append(dst, f.Mask[:]...)
	for i, c := range f.Payload {
		dst = append(dst, c^f.Mask[i%4])
	}
	return dst
}

// CloseCode returns the code and reason of a Close frame; 1005 when it has none.
func (f Frame) CloseCode() (code int, reason string) {
	if len(f.Payload) < 2 {
		return 1005, ""
	}
	return int(binary.BigEndian.Uint16(f.Payload)), string(f.Payload[2:])
}

// ClosePayload renders the payload of a Close frame; code 1005 is the empty one.
func ClosePayload(code int, reason string) []byte {
	if code == 1005 {
		return nil
	}
	return append(binary.BigEndian.AppendUint16(nil, uint16(code)), reason...)
}

// frameReader reads frames and fails on the first that its sender was not allowed to send.
type frameReader struct {
	r          io.Reader
	masked     bool // what the sender must do
	fragmented bool // a message is open
	closed     bool // a Close was read
}

func (d *frameReader) next() (Frame, error) {
	var head [14]byte
	if _, err := io.ReadFull(d.r, head[:2]); err != nil {
		return Frame{}, err // io.EOF only between frames
	}
	if d.closed {
		return Frame{}, errors.New("a frame behind a Close")
	}
	f := Frame{Fin: head[0]&0x80 != 0, Op: head[0] & 0x0f, Masked: head[1]&0x80 != 0}
	if head[0]&0x70 != 0 {
		return f, fmt.Errorf("reserved bits set in % x", head[:2])
	}
	if f.Masked != d.masked {
		return f, fmt.Errorf("mask bit is %t in % x, must be %t", f.Masked, head[:2], d.masked)
	}
	if err := d.order(f); err != nil {
		return f, err
	}
	n, err := d.length(head[1]&0x7f, head[2:10])
	if err != nil {
		return f, err
	}
	if f.Op >= Close && (n > 125 || !f.Fin) {
		return f, fmt.Errorf("control frame of %d bytes, fin %t", n, f.Fin)
	}
	if f.Masked {
		if err := full(d.r, f.Mask[:]); err != nil {
			return f, err
		}
	}
	f.Payload = make([]byte, n)
	if err := full(d.r, f.Payload); err != nil {
		return f, err
	}
	for i := range f.Payload {
		f.Payload[i] ^= f.Mask[i%4]
	}
	if f.Op == Close {
		d.closed = true
		return f, checkClose(f.Payload)
	}
	return f, nil
}

// order checks the opcode and keeps the state of fragmentation.
func (d *frameReader) order(f Frame) error {
	switch {
	case f.Op > Binary && f.Op < Close || f.Op > Pong:
		return fmt.Errorf("reserved opcode %#x", f.Op)
	case f.Op >= Close:
		return nil
	case d.fragmented != (f.Op == Continuation):
		return fmt.Errorf("opcode %#x while a fragmented message is open: %t", f.Op, d.fragmented)
	}
	d.fragmented = !f.Fin
	return nil
}

// length reads the extended payload length, which must be the shortest form.
func (d *frameReader) length(n7 byte, buf []byte) (uint64, error) {
	switch n7 {
	case 126:
		if err := full(d.r, buf[:2]); err != nil {
			return 0, err
		}
		n := uint64(binary.BigEndian.Uint16(buf))
		if n < 126 {
			return n, fmt.Errorf("length %d in 16 bits", n)
		}
		return n, nil
	case 127:
		if err := full(d.r, buf[:8]); err != nil {
			return 0, err
		}
		n := binary.BigEndian.Uint64(buf)
		if n <= 0xffff {
			return n, fmt.Errorf("length %d in 64 bits", n)
		}
		if n > maxPayload {
			return n, fmt.Errorf("length %d", n)
		}
		return n, nil
	}
	return uint64(n7), nil
}

// full is io.ReadFull inside a frame, where an end is never clean.
func full(r io.Reader, b []byte) error {
	_, err := io.ReadFull(r, b)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// checkClose holds a Close payload against RFC 6455 sections 5.5.1 and 7.4 and the registry of close codes.
func checkClose(p []byte) error {
	if len(p) == 0 {
		return nil
	}
	if len(p) == 1 {
		return errors.New("Close payload of one byte")
	}
	code := int(binary.BigEndian.Uint16(p))
	known := code >= 1000 && code <= 1003 || code >= 1007 && code <= 1014 || code >= 3000 && code <= 4999
	if !known {
		return fmt.Errorf("close code %d on the wire", code)
	}
	if !utf8.Valid(p[2:]) {
		return fmt.Errorf("close reason % x is not UTF-8", p[2:])
	}
	return nil
}
