package wire

import (
	"encoding/binary"
	"errors"
	"math"
	"math/bits"
	"math/rand/v2"

	"github.com/gobwas/ws"
)

// Role tells who sent the bytes.
type Role uint8

// A client masks every frame, a server none (RFC 6455 section 5.1).
const (
	FromClient Role = iota
	FromServer
)

// ProtocolError is a violation of RFC 6455 (or of a limit) by the peer. Code is the close code that names it: 1002, 1007
// or 1009.
type ProtocolError struct {
	Code ws.StatusCode
	text string
}

// Error names the rule that was broken; it holds nothing that the peer sent.
func (e *ProtocolError) Error() string { return "websocket: " + e.text }

// What a Parser or CheckClosePayload can find.
var (
	ErrReservedBits   = &ProtocolError{ws.StatusProtocolError, "reserved bit set, and no extension was agreed"}
	ErrReservedOpCode = &ProtocolError{ws.StatusProtocolError, "reserved opcode"}
	ErrNotMasked      = &ProtocolError{ws.StatusProtocolError, "frame of a client is not masked"}
	ErrMasked         = &ProtocolError{ws.StatusProtocolError, "frame of a server is masked"}
	ErrControlFrame   = &ProtocolError{ws.StatusProtocolError, "control frame is fragmented or longer than 125 bytes"}
	ErrFragmentation  = &ProtocolError{ws.StatusProtocolError, "continuation and message frames are out of order"}
	ErrLengthForm     = &ProtocolError{ws.StatusProtocolError, "frame length is not in its shortest form"}
	ErrLengthSign     = &ProtocolError{ws.StatusProtocolError, "frame length has its top bit set"}
	ErrTooBig         = &ProtocolError{ws.StatusMessageTooBig, "message is longer than the limit"}
	ErrFragments      = &ProtocolError{ws.StatusMessageTooBig, "message has more fragments than the limit"}
	ErrClosePayload   = &ProtocolError{ws.StatusProtocolError, "close frame has an invalid length or code"}
	ErrCloseReason    = &ProtocolError{ws.StatusInvalidFramePayloadData, "close reason is not UTF-8"}
)

// CloseCode is the code that answers err: that of a ProtocolError in its chain, else 1002.
func CloseCode(err error) ws.StatusCode {
	if e, ok := errors.AsType[*ProtocolError](err); ok {
		return e.Code
	}
	return ws.StatusProtocolError
}

// Frame is a valid frame header.
type Frame struct {
	Length int64 // of the payload, bytes
	Header int   // length of the header itself, bytes
	Mask   [4]byte
	Op     ws.OpCode
	Fin    bool
}

// Parser judges the frame headers of one direction of one connection. It holds no bytes and no pointers; its zero value
// is ready. It is to be shown the stream in order: Next at each frame boundary, Advance for the payload between them.
type Parser struct {
	remain int64 // payload bytes of the current frame still to come
	total  int64 // payload bytes of the current message announced so far
	mask   [4]byte
	frames uint16 // of the current message
	phase  uint8  // position of the next payload byte in mask
	open   bool   // the current message has more frames to come
}

// Limits bound a whole message: its payload in bytes and its frames. 0 is no limit.
type Limits struct {
	Message   int64
	Fragments uint16
}

// Next reads the header that b begins with and may be called only while Remaining is 0. ok is false when b ends inside
// the header: call it again with the same bytes and more. A violation is reported (as a *ProtocolError) as soon as the
// bytes that show it are there, and always before ok. limit bounds the payload of a whole message; 0 is no limit.
//
// A control frame leaves the state as it was: the caller takes its payload with the header. After any other frame,
// Length bytes are due to Advance.
func (p *Parser) Next(b []byte, from Role, limit int64) (f Frame, ok bool, err error) {
	return p.NextWithin(b, from, Limits{Message: limit})
}

// NextWithin is Next with more limits.
func (p *Parser) NextWithin(b []byte, from Role, limits Limits) (f Frame, ok bool, err error) {
	if len(b) == 0 {
		return f, false, nil
	}
	f.Op, f.Fin = ws.OpCode(b[0]&0x0f), b[0]&0x80 != 0
	if err := p.checkFirst(b[0], f.Op, f.Fin); err != nil {
		return f, false, err
	}
	if len(b) < 2 {
		return f, false, nil
	}
	if masked := b[1]&0x80 != 0; masked != (from == FromClient) {
		if masked {
			return f, false, ErrMasked
		}
		return f, false, ErrNotMasked
	}
	n7 := b[1] & 0x7f
	if f.Op.IsControl() && n7 > ws.MaxControlFramePayloadSize {
		return f, false, ErrControlFrame
	}
	size, err := f.length(b, n7)
	if err != nil || size == 0 {
		return f, false, err
	}
	if err := p.checkLimits(f, limits); err != nil {
		return f, false, err
	}
	if from == FromClient {
		if len(b) < size+4 {
			return f, false, nil
		}
		f.Mask = [4]byte(b[size:])
		size += 4
	}
	f.Header = size
	if !f.Op.IsControl() {
		p.enter(f)
	}
	return f, true, nil
}

// checkFirst judges what the first byte alone tells (RFC 6455 sections 5.2, 5.4 and 5.5).
func (p *Parser) checkFirst(b byte, op ws.OpCode, fin bool) error {
	switch {
	case b&0x70 != 0:
		return ErrReservedBits
	case op.IsReserved():
		return ErrReservedOpCode
	case op.IsControl():
		if !fin {
			return ErrControlFrame
		}
	case p.open != (op == ws.OpContinuation):
		return ErrFragmentation
	}
	return nil
}

// length reads the payload length and returns how long the header is up to there; 0 when b is too short to tell.
func (f *Frame) length(b []byte, n7 byte) (size int, err error) {
	switch n7 {
	case 126:
		if len(b) < 4 {
			return 0, nil
		}
		f.Length = int64(binary.BigEndian.Uint16(b[2:]))
		if f.Length < 126 { // RFC 6455 section 5.2: the minimal number of bytes must be used
			return 0, ErrLengthForm
		}
		return 4, nil
	case 127:
		if len(b) < 10 {
			return 0, nil
		}
		n := binary.BigEndian.Uint64(b[2:])
		switch {
		case n>>63 != 0:
			return 0, ErrLengthSign
		case n <= 0xffff:
			return 0, ErrLengthForm
		}
		f.Length = int64(n)
		return 10, nil
	}
	f.Length = int64(n7)
	return 2, nil
}

func (p *Parser) checkLimits(f Frame, limits Limits) error {
	if f.Op.IsControl() {
		return nil
	}
	if limit := limits.Message; limit > 0 && (f.Length > limit || p.open && p.total > limit-f.Length) {
		return ErrTooBig
	}
	if limits.Fragments > 0 && p.open && p.frames >= limits.Fragments {
		return ErrFragments
	}
	return nil
}

func (p *Parser) enter(f Frame) {
	if !p.open {
		p.total, p.frames = 0, 0
	}
	p.total += f.Length
	if p.frames < math.MaxUint16 {
		p.frames++
	}
	p.remain, p.mask, p.phase, p.open = f.Length, f.Mask, 0, !f.Fin
}

// Remaining is the number of payload bytes of the current frame still to come.
func (p *Parser) Remaining() int64 { return p.remain }

// Advance counts n payload bytes, at most Remaining, as seen.
func (p *Parser) Advance(n int) {
	p.remain -= int64(n)
	p.phase = (p.phase + uint8(n)) & 3
}

// AtFrame reports whether the stream stands between two frames, where a control frame may be put in.
func (p *Parser) AtFrame() bool { return p.remain == 0 }

// AtMessage reports whether the stream stands between two messages, where a data frame may be put in.
func (p *Parser) AtMessage() bool { return p.remain == 0 && !p.open }

// Unmask decodes in place payload bytes of the current frame that begin where the next Advance begins. Frames of a
// server are left as they are.
func (p *Parser) Unmask(b []byte) { p.UnmaskAt(b, 0) }

// UnmaskAt is Unmask for payload bytes that begin offset bytes further on in the same frame.
func (p *Parser) UnmaskAt(b []byte, offset int) { ws.Cipher(b, p.mask, int(p.phase)+offset) }

// HasAt reports whether the payload bytes b of the current frame, which begin where the next Advance begins, decode to
// something that has part at offset at. b is not changed.
func (p *Parser) HasAt(b []byte, at int, part []byte) bool {
	if len(b)-at < len(part) {
		return false
	}
	b = b[at:]
	mask := uint64(bits.RotateLeft32(binary.LittleEndian.Uint32(p.mask[:]), -8*(int(p.phase)+at)))
	mask |= mask << 32
	n := 0
	for ; n+8 <= len(part); n += 8 {
		if binary.LittleEndian.Uint64(b[n:])^mask != binary.LittleEndian.Uint64(part[n:]) {
			return false
		}
	}
	for ; n < len(part); n++ {
		if b[n]^byte(mask>>(8*(n&7))) != part[n] {
			return false
		}
	}
	return true
}

// IndexAt returns where b, which is as in HasAt, first has the byte c when decoded, from offset at on; -1 for nowhere.
func (p *Parser) IndexAt(b []byte, at int, c byte) int {
	for n := at; n < len(b); n++ {
		if b[n]^p.mask[(int(p.phase)+n)&3] == c {
			return n
		}
	}
	return -1
}

// AppendFrame renders one whole message, or a control frame, behind dst. A client's gets a random mask.
func AppendFrame(dst []byte, from Role, op ws.OpCode, payload []byte) []byte {
	var maskBit byte
	if from == FromClient {
		maskBit = 0x80
	}
	dst = append(dst, 0x80|byte(op))
	switch n := len(payload); {
	case n < 126:
		dst = append(dst, maskBit|byte(n))
	case n <= 0xffff:
		dst = binary.BigEndian.AppendUint16(append(dst, maskBit|126), uint16(n))
	default:
		dst = binary.BigEndian.AppendUint64(append(dst, maskBit|127), uint64(n))
	}
	if from == FromServer {
		return append(dst, payload...)
	}
	var mask [4]byte
	binary.LittleEndian.PutUint32(mask[:], rand.Uint32()) // RFC 6455 section 5.3: unpredictable; the runtime's is ChaCha8
	dst = append(append(dst, mask[:]...), payload...)
	ws.Cipher(dst[len(dst)-len(payload):], mask, 0)
	return dst
}
