package wire

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"unsafe"

	"github.com/gobwas/ws"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// stream shows b to p in pieces that end at the given offsets, as a relay does: an incomplete header, and a control
// frame that is not whole, is shown again with what follows. It returns the frames and how many bytes could be passed
// on.
func stream(p *Parser, b []byte, from Role, limit int64, cuts ...int) (frames []Frame, passed int, err error) {
	seen := 0
	for _, end := range append(cuts, len(b)) {
		seen = max(seen, end)
		for passed < seen {
			if r := p.Remaining(); r > 0 {
				n := int(min(r, int64(seen-passed)))
				p.Advance(n)
				passed += n
				continue
			}
			f, ok, err := p.Next(b[passed:seen], from, limit)
			if err != nil {
				return frames, passed, err
			}
			if !ok {
				break
			}
			if f.Op.IsControl() {
				if seen-passed < f.Header+int(f.Length) {
					break
				}
				passed += int(f.Length)
			}
			frames = append(frames, f)
			passed += f.Header
		}
	}
	return frames, passed, nil
}

func TestParserRefusesBeforePassing(t *testing.T) {
	f := func(name, frames string, from Role, limit int64, passed int, want error) {
		t.Helper()
		b := unhex(t, frames)
		var dripped []int
		for i := range b {
			dripped = append(dripped, i)
		}
		for _, cuts := range [][]int{nil, dripped} {
			var p Parser
			_, n, err := stream(&p, b, from, limit, cuts...)
			if !errors.Is(err, want) || (want == nil) != (err == nil) || n != passed {
				t.Errorf("%s (%d cuts): passed %d with %v, want %d with %v", name, len(cuts), n, err, passed, want)
			}
		}
	}
	f("hello", "81 85 37 fa 21 3d 7f 9f 4d 51 58", FromClient, 0, 11, nil)
	f("F8 unmasked behind a good frame", "81 85 37 fa 21 3d 7f 9f 4d 51 58 81 02 48 69", FromClient, 0, 11, ErrNotMasked)
	f("masked from a server", "81 81 00 00 00 00 61", FromServer, 0, 0, ErrMasked)
	f("F10 RSV1", "c1 81 00 00 00 00 61", FromClient, 0, 0, ErrReservedBits)
	f("RSV2", "a1", FromServer, 0, 0, ErrReservedBits)
	f("RSV3", "91", FromServer, 0, 0, ErrReservedBits)
	f("opcode 3", "83 00", FromServer, 0, 0, ErrReservedOpCode)
	f("opcode b", "8b 00", FromServer, 0, 0, ErrReservedOpCode)
	f("fragmented ping", "09 00", FromServer, 0, 0, ErrControlFrame)
	f("long ping", "89 7e 00 7e", FromServer, 0, 0, ErrControlFrame)
	f("lone continuation", "80 00", FromServer, 0, 0, ErrFragmentation)
	f("text inside a message", "01 01 61 81 01 62", FromServer, 0, 3, ErrFragmentation)
	f("F6 ping inside a message", "01 05 68 65 6c 6c 6f 89 00 80 05 77 6f 72 6c 64", FromServer, 0, 16, nil)
	f("length 125 in 16 bits", "82 7e 00 7d", FromServer, 0, 0, ErrLengthForm)
	f("length 65535 in 64 bits", "82 7f 00 00 00 00 00 00 ff ff", FromServer, 0, 0, ErrLengthForm)
	f("H1 overflow", "02 81 00 00 00 00 61 80 ff 7f ff ff ff ff ff ff ff 00 00 00 00", FromClient, 32<<20, 7, ErrTooBig)
	f("H1 sign", "82 ff ff ff ff ff ff ff ff fc", FromClient, 32<<20, 0, ErrLengthSign)
	f("limit reached", "02 02 61 62 80 02 63 64", FromServer, 4, 8, nil)
	f("limit passed by a fragment", "02 02 61 62 80 03 63 64 65", FromServer, 4, 4, ErrTooBig)
	f("limit is per message", "82 03 61 62 63 82 03 61 62 63", FromServer, 4, 10, nil)
	f("a ping does not count", "02 03 61 62 63 89 02 61 62 80 01 64", FromServer, 4, 12, nil)
	f("no limit, no overflow", "02 01 61 00 7f 7f ff ff ff ff ff ff ff", FromServer, 0, 13, nil)
}

func TestParserBoundaries(t *testing.T) {
	b := unhex(t, "01 02 68 65 89 00 00 00 80 01 6c 82 00")
	// after each header and each payload byte: M between messages, F between frames of a message, dot inside a frame
	var p Parser
	var got []byte
	pos := 0
	for pos < len(b) {
		if p.Remaining() > 0 {
			p.Advance(1)
			pos++
		} else {
			f, ok, err := p.Next(b[pos:], FromServer, 0)
			if !ok || err != nil {
				t.Fatal(ok, err)
			}
			pos += f.Header
		}
		switch {
		case p.AtMessage():
			got = append(got, 'M')
		case p.AtFrame():
			got = append(got, 'F')
		default:
			got = append(got, '.')
		}
	}
	if string(got) != "..FFF.MM" {
		t.Errorf("boundaries %s, want ..FFF.MM", got)
	}
}

func TestParserUnmasksFromAnyOffset(t *testing.T) {
	want := []byte("the quick brown fox jumps over the lazy dog")
	b := AppendFrame(nil, FromClient, ws.OpText, want)
	for cut := 0; cut <= len(want); cut++ {
		var p Parser
		f, ok, err := p.Next(b, FromClient, 0)
		if !ok || err != nil {
			t.Fatal(ok, err)
		}
		payload := bytes.Clone(b[f.Header:])
		p.Unmask(payload[:cut])
		p.Advance(cut)
		p.Unmask(payload[cut:])
		if !bytes.Equal(payload, want) {
			t.Fatalf("cut at %d: %q", cut, payload)
		}
	}
}

func TestParserComparesWhatIsMasked(t *testing.T) {
	want := []byte("the quick brown fox jumps over the lazy dog")
	for _, from := range []Role{FromClient, FromServer} {
		b := AppendFrame(nil, from, ws.OpText, want)
		for skip := range 5 {
			var p Parser
			f, ok, err := p.Next(b, from, 0)
			if !ok || err != nil {
				t.Fatal(ok, err)
			}
			p.Advance(skip)
			payload := b[f.Header+skip:]
			for n := 0; n <= len(payload); n++ {
				prefix := bytes.Clone(want[skip : skip+n])
				if !p.HasAt(payload, 0, prefix) {
					t.Fatalf("behind %d bytes: no prefix %q", skip, prefix)
				}
				if n < len(payload) && p.HasAt(payload[:n], 0, want[skip:skip+n+1]) {
					t.Fatalf("%d bytes have a longer prefix", n)
				}
				for i := range prefix {
					prefix[i] ^= 1
					if p.HasAt(payload, 0, prefix) {
						t.Fatalf("behind %d bytes: prefix %q", skip, prefix)
					}
					prefix[i] ^= 1
				}
			}
			for at := range payload {
				if !p.HasAt(payload, at, want[skip+at:]) || p.HasAt(payload, at, append([]byte("x"), want[skip+at+1:]...)) && want[skip+at] != 'x' {
					t.Fatalf("behind %d bytes, at %d", skip, at)
				}
				if got, index := p.IndexAt(payload, at, 'o'), bytes.IndexByte(want[skip+at:], 'o'); got != index+at && (got >= 0 || index >= 0) {
					t.Fatalf("behind %d bytes, from %d: an o at %d, want %d", skip, at, got, index+at)
				}
			}
			if again := AppendFrame(nil, FromServer, ws.OpText, want); from == FromServer && !bytes.Equal(again, b) {
				t.Error("the payload was changed")
			}
		}
	}
}

func TestAppendFrameIsReadByOthers(t *testing.T) {
	for _, n := range []int{0, 1, 125, 126, 65535, 65536, 70000} {
		for _, from := range []Role{FromClient, FromServer} {
			payload := bytes.Repeat([]byte("x"), n)
			got, err := ws.ReadFrame(bytes.NewReader(AppendFrame(nil, from, ws.OpBinary, payload)))
			if err != nil {
				t.Fatal(err)
			}
			if got.Header.Masked != (from == FromClient) {
				t.Errorf("role %d: masked %t", from, got.Header.Masked)
			}
			if got = ws.UnmaskFrame(got); !bytes.Equal(got.Payload, payload) || !got.Header.Fin || got.Header.OpCode != ws.OpBinary {
				t.Errorf("%d bytes: read %+v with %d bytes", n, got.Header, len(got.Payload))
			}
		}
	}
}

func TestParserIsSmall(t *testing.T) {
	if n := unsafe.Sizeof(Parser{}); n > 48 {
		t.Errorf("Parser has %d bytes, want at most 48", n)
	}
}

func TestParserDoesNotAllocate(t *testing.T) {
	b := AppendFrame(nil, FromClient, ws.OpText, make([]byte, 300))
	bad := unhex(t, "c1 81")
	var p Parser
	got := testing.AllocsPerRun(1000, func() {
		f, _, _ := p.Next(b, FromClient, 1<<20)
		p.Advance(int(f.Length))
		_, _, _ = p.Next(bad, FromClient, 1<<20)
	})
	if got != 0 {
		t.Errorf("%v allocations per frame", got)
	}
}

// FuzzParser holds the parser against gobwas/ws, which reads whole headers from a reader. Only this parser insists on
// the shortest form of a length and a limit.
func FuzzParser(f *testing.F) {
	for _, s := range []string{
		"81 85 37 fa 21 3d 7f 9f 4d 51 58", "01 05 68 65 6c 6c 6f 89 00 80 05 77 6f 72 6c 64", "88 02 03 e8",
		"82 ff ff ff ff ff ff ff ff fc", "80 ff 7f ff ff ff ff ff ff ff", "02 81 00 00 00 00 61", "82 7e 00 7d", "c1",
	} {
		f.Add(unhex(f, s), uint64(1), true)
		f.Add(unhex(f, s), uint64(2), false)
	}
	f.Fuzz(func(t *testing.T, b []byte, seed uint64, client bool) {
		from, state := FromServer, ws.StateClientSide
		if client {
			from, state = FromClient, ws.StateServerSide
		}
		rnd := rand.New(rand.NewPCG(seed, 0))
		cuts := make([]int, 8)
		for i := range cuts {
			cuts[i] = rnd.IntN(len(b) + 1)
		}
		var whole, pieces Parser
		frames, passed, err := stream(&whole, b, from, 1<<20)
		frames2, passed2, err2 := stream(&pieces, b, from, 1<<20, cuts...)
		if err != err2 || passed != passed2 || len(frames) != len(frames2) {
			t.Fatalf("whole: %d frames, %d bytes, %v; in pieces: %d, %d, %v", len(frames), passed, err, len(frames2), passed2, err2)
		}
		compare(t, b, frames, err, state)
	})
}

// compare replays b through gobwas/ws.
func compare(t *testing.T, b []byte, frames []Frame, parserErr error, state ws.State) {
	for _, got := range frames {
		h, err := ws.ReadHeader(bytes.NewReader(b))
		if err == nil {
			err = ws.CheckHeader(h, state)
		}
		if err != nil {
			t.Fatalf("accepted % x, gobwas: %v", b, err)
		}
		if h.OpCode != got.Op || h.Fin != got.Fin || h.Length != got.Length || h.Mask != got.Mask || ws.HeaderSize(h) != got.Header {
			t.Fatalf("% x: got %+v, gobwas %+v", b, got, h)
		}
		if !h.OpCode.IsControl() {
			state = state.Clear(ws.StateFragmented)
			if !h.Fin {
				state = state.Set(ws.StateFragmented)
			}
		}
		b = b[min(int64(len(b)), int64(got.Header)+got.Length):]
	}
	if parserErr == nil {
		return
	}
	h, err := ws.ReadHeader(bytes.NewReader(b))
	if err == nil {
		err = ws.CheckHeader(h, state)
	}
	longForm := parserErr == ErrControlFrame && len(b) > 1 && b[1]&0x7f > 125 // of a short control frame
	if err == nil && parserErr != ErrLengthForm && parserErr != ErrTooBig && !longForm {
		t.Fatalf("% x: refused with %v, gobwas takes it", b, parserErr)
	}
}

func BenchmarkParser(b *testing.B) {
	for _, from := range []Role{FromClient, FromServer} {
		frame := AppendFrame(nil, from, ws.OpText, make([]byte, 1300))
		b.Run([]string{"client", "server"}[from], func(b *testing.B) {
			var p Parser
			for b.Loop() {
				f, _, _ := p.Next(frame, from, 1<<20)
				p.Advance(int(f.Length))
			}
		})
	}
}

func TestParserBoundsFragments(t *testing.T) {
	var p Parser
	limits := Limits{Fragments: 3}
	next := func(first byte) error {
		_, _, err := p.NextWithin([]byte{first, 0}, FromServer, limits)
		return err
	}
	for range 2 { // each message anew
		for _, first := range []byte{0x01, 0x89, 0x00, 0x8a, 0x80, 0x82} { // control frames do not count
			if err := next(first); err != nil {
				t.Fatalf("%#x: %v", first, err)
			}
		}
	}
	for _, first := range []byte{0x02, 0x00, 0x00} {
		if err := next(first); err != nil {
			t.Fatal(err)
		}
	}
	for _, first := range []byte{0x00, 0x80} {
		if err := next(first); !errors.Is(err, ErrFragments) || CloseCode(err) != 1009 {
			t.Errorf("%#x: %v, want %v", first, err, ErrFragments)
		}
	}
	if err := next(0x89); err != nil {
		t.Errorf("a ping between: %v", err)
	}
	limits = Limits{}
	for range 100_000 {
		if err := next(0x00); err != nil {
			t.Fatal(err)
		}
	}
}
