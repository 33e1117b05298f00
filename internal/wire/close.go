package wire

import (
	"encoding/binary"
	"unicode/utf8"

	"github.com/gobwas/ws"
)

// maxReason is what a control frame leaves for the reason behind the code (RFC 6455 section 5.5).
const maxReason = ws.MaxControlFramePayloadSize - 2

// ValidCloseCode reports whether a Close frame may carry code: RFC 6455 section 7.4 and the registry it founded. 1004,
// 1005, 1006 and 1015 may not.
func ValidCloseCode(code ws.StatusCode) bool {
	switch {
	case code >= 1000 && code <= 1003, code >= 1007 && code <= 1014:
		return true
	}
	return code >= 3000 && code <= 4999
}

// CheckClosePayload judges the unmasked payload of a Close frame and returns its code, 1005 for an empty one. The error
// is ErrClosePayload (1002) or ErrCloseReason (1007).
func CheckClosePayload(p []byte) (ws.StatusCode, error) {
	if len(p) == 0 {
		return ws.StatusNoStatusRcvd, nil
	}
	if len(p) == 1 || len(p) > ws.MaxControlFramePayloadSize {
		return 0, ErrClosePayload
	}
	code := ws.StatusCode(binary.BigEndian.Uint16(p))
	if !ValidCloseCode(code) {
		return 0, ErrClosePayload
	}
	if !utf8.Valid(p[2:]) {
		return 0, ErrCloseReason
	}
	return code, nil
}

// AppendClose renders a Close frame behind dst. A code that may not be on the wire, such as 1005, gives an empty one.
// The reason is cut to 123 bytes at the end of a rune; invalid UTF-8 is left out.
func AppendClose(dst []byte, from Role, code ws.StatusCode, reason string) []byte {
	if !ValidCloseCode(code) {
		return AppendFrame(dst, from, ws.OpClose, nil)
	}
	var payload [ws.MaxControlFramePayloadSize]byte
	binary.BigEndian.PutUint16(payload[:], uint16(code))
	n := copy(payload[2:], CutReason(reason))
	return AppendFrame(dst, from, ws.OpClose, payload[:2+n])
}

// CutReason is reason as it fits a Close frame.
func CutReason(reason string) string {
	if !utf8.ValidString(reason) {
		return ""
	}
	if len(reason) <= maxReason {
		return reason
	}
	n := maxReason
	for !utf8.RuneStart(reason[n]) {
		n--
	}
	return reason[:n]
}
