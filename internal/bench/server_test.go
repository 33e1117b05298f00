package bench

import (
	"encoding/binary"
	"io"
	"net"

	"github.com/gobwas/ws"

	"github.com/rtd-project/rtd/internal/wire"
)

// socketServer is the server's end of a WebSocket, as small as a test needs: no fragments, and a Close is answered.
type socketServer struct{ conn net.Conn }

func (s *socketServer) read() (string, error) {
	f, err := ws.ReadFrame(s.conn)
	if err != nil {
		return "", err
	}
	f = ws.UnmaskFrameInPlace(f)
	if f.Header.OpCode == ws.OpClose {
		code := ws.StatusNormalClosure
		if len(f.Payload) >= 2 {
			code = ws.StatusCode(binary.BigEndian.Uint16(f.Payload))
		}
		_, _ = s.conn.Write(wire.AppendClose(nil, wire.FromServer, code, ""))
		return "", io.EOF
	}
	return string(f.Payload), nil
}

func appendText(dst []byte, text string) []byte {
	return wire.AppendFrame(dst, wire.FromServer, ws.OpText, []byte(text))
}
