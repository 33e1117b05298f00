package sim

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"unicode/utf8"

	"github.com/gobwas/ws"
)

// maxMessage bounds a client's message, in bytes.
const maxMessage = 32 << 20

// readStep is how many bytes of a message are allocated before they have arrived.
const readStep = 64 << 10

var (
	errTooBig       = errors.New("message exceeds 32 MiB")
	errNotUTF8      = errors.New("text message is not UTF-8")
	errPeerClosed   = errors.New("peer sent Close")
	errLength       = ws.ProtocolError("length is not in its shortest form")
	errLengthBit    = ws.ProtocolError("length has its top bit set")
	errClosePayload = ws.ProtocolError("close payload is malformed")
)

// readHeader reads and checks a client's frame header, RFC 6455 section 5.2.
func readHeader(br *bufio.Reader, state ws.State) (ws.Header, error) {
	var h ws.Header
	b, err := br.Peek(2)
	if err != nil {
		return h, err
	}
	h.Fin, h.Rsv, h.OpCode = b[0]&0x80 != 0, b[0]>>4&7, ws.OpCode(b[0]&0xf)
	h.Masked, h.Length = b[1]&0x80 != 0, int64(b[1]&0x7f)
	size := 2
	switch h.Length {
	case 126:
		size += 2
	case 127:
		size += 8
	}
	if h.Masked {
		size += 4
	}
	// What the first two bytes show to be wrong is refused before the rest is waited for.
	if err := ws.CheckHeader(h, state); err != nil {
		return h, err
	}
	if b, err = br.Peek(size); err != nil {
		return h, err
	}
	switch h.Length {
	case 126:
		if h.Length = int64(binary.BigEndian.Uint16(b[2:])); h.Length < 126 {
			return h, errLength
		}
	case 127:
		n := binary.BigEndian.Uint64(b[2:])
		if n>>63 != 0 {
			return h, errLengthBit
		}
		if h.Length = int64(n); h.Length <= 0xffff {
			return h, errLength
		}
	}
	copy(h.Mask[:], b[size-4:])
	_, err = br.Discard(size)
	return h, err
}

// readPayload appends a frame's unmasked payload to dst; memory grows with what has arrived, not with what was announced.
func readPayload(br *bufio.Reader, h ws.Header, dst []byte) ([]byte, error) {
	for done := 0; done < int(h.Length); {
		n := min(int(h.Length)-done, readStep)
		dst = slices.Grow(dst, n)
		p := dst[len(dst) : len(dst)+n]
		if _, err := io.ReadFull(br, p); err != nil {
			return dst, err
		}
		ws.Cipher(p, h.Mask, done)
		dst, done = dst[:len(dst)+n], done+n
	}
	return dst, nil
}

// checkClose reads a Close payload; code is 1005 when there is none.
func checkClose(p []byte) (ws.StatusCode, error) {
	if len(p) == 0 {
		return ws.StatusNoStatusRcvd, nil
	}
	code, reason := ws.ParseCloseFrameData(p)
	if len(p) == 1 || !validCloseCode(code) || !utf8.ValidString(reason) {
		return 0, errClosePayload
	}
	return code, nil
}

// validCloseCode reports whether a code may stand in a Close frame: RFC 6455 section 7.4 and its IANA registry.
func validCloseCode(code ws.StatusCode) bool {
	switch {
	case code >= 1000 && code <= 1003, code >= 1007 && code <= 1014, code >= 3000 && code <= 4999:
		return true
	}
	return false
}

// appendFrame renders a server's frame.
func appendFrame(dst []byte, op ws.OpCode, payload []byte) []byte {
	dst = append(dst, 0x80|byte(op))
	switch n := len(payload); {
	case n < 126:
		dst = append(dst, byte(n))
	case n <= 0xffff:
		dst = binary.BigEndian.AppendUint16(append(dst, 126), uint16(n))
	default:
		dst = binary.BigEndian.AppendUint64(append(dst, 127), uint64(n))
	}
	return append(dst, payload...)
}
