package relay

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gobwas/ws"
	"github.com/rtd-project/rtd/internal/wire"
)

// pipes is a driver whose sockets take as many bytes as chance wants and keep them.
type pipes struct {
	driver
	*loop
	rnd *rand.Rand
	got [2][]byte
}

func (p *pipes) some(b []byte) int {
	if p.rnd.IntN(3) > 0 {
		return len(b)
	}
	return p.rnd.IntN(len(b) + 1)
}

func (p *pipes) write(i uint32, k int, b []byte) (int, error) {
	if p.at(i).leg[k].spill != 0 {
		return 0, nil
	}
	n := p.some(b)
	p.got[k] = append(p.got[k], b[:n]...)
	return n, nil
}

// flush takes some or all of what waits.
func (p *pipes) flush(i uint32, k int, all bool) {
	for len(p.pending(i, k)) > 0 {
		b := p.pending(i, k)
		n := p.some(b)
		p.got[k] = append(p.got[k], b[:n]...)
		p.wrote(i, k, n)
		if !all {
			return
		}
	}
}

// conversation renders frames of one side at random, and which of their bytes must arrive.
func conversation(rnd *rand.Rand, from wire.Role) (sent, data []byte) {
	open := false
	for range 1 + rnd.IntN(12) {
		payload := make([]byte, []int{0, 1, 5, 125, 126, 300, 5000}[rnd.IntN(7)])
		for n := range payload {
			payload[n] = byte(rnd.Uint32())
		}
		switch rnd.IntN(4) {
		case 0:
			op := []ws.OpCode{ws.OpPing, ws.OpPong}[rnd.IntN(2)]
			sent = wire.AppendFrame(sent, from, op, payload[:min(125, len(payload))])
			continue
		default:
			op := ws.OpText
			if open {
				op = ws.OpContinuation
			}
			f := wire.AppendFrame(nil, from, op, payload)
			if open = rnd.IntN(3) == 0; open {
				f[0] &^= 0x80
			}
			sent, data = append(sent, f...), append(data, f...)
		}
	}
	return sent, data
}

// strip returns the data frames of a stream that must be valid up to its end.
func strip(b []byte, from wire.Role) (data []byte, controls int, err error) {
	var p wire.Parser
	for len(b) > 0 {
		f, ok, err := p.Next(b, from, 0)
		if err != nil {
			return data, controls, err
		}
		if !ok || f.Length > int64(len(b)-f.Header) {
			return data, controls, errors.New("incomplete")
		}
		n := f.Header + int(f.Length)
		if f.Op.IsControl() {
			controls++
		} else {
			p.Advance(int(f.Length))
			data = append(data, b[:n]...)
		}
		b = b[n:]
	}
	return data, controls, nil
}

// FuzzFeed: whatever both sides say, however it is cut and however slowly it is taken, each side gets the other's data
// frames byte for byte, and what is put in stands between frames.
func FuzzFeed(f *testing.F) {
	for seed := range uint64(300) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		l := newLoop(Config{}.withDefaults(), time.Now())
		p := &pipes{loop: l, rnd: rnd}
		l.d = p
		i := l.take()
		s := l.at(i)
		s.state = live
		h := newRecorder()
		h.capture = true
		*l.handler(i) = h
		var sent, data [2][]byte
		for k := range sent {
			sent[k], data[k] = conversation(rnd, wire.Role(k))
		}
		left := sent
		for len(left[client])+len(left[upstream]) > 0 {
			k := rnd.IntN(2)
			if rnd.IntN(20) == 0 {
				l.ping(i, s, k)
			}
			if s.leg[1-k].spill != 0 {
				p.flush(i, 1-k, false)
				continue
			}
			n := min(len(left[k]), 1+rnd.IntN([]int{3, 50, 2000}[rnd.IntN(3)]))
			buf := append(make([]byte, room), left[k][:n]...)
			l.input(i, k, buf, n)
			left[k] = left[k][n:]
		}
		for k := range sent {
			p.flush(i, k, true)
			got, _, err := strip(p.got[k], roleTo(k))
			if err != nil || !bytes.Equal(got, data[1-k]) {
				t.Errorf("leg %d got %d bytes of %d: %v", k, len(got), len(data[1-k]), err)
			}
		}
		if c := l.counters(s); c.Held != 0 || c.Bytes != [2]uint64{uint64(len(data[0])), uint64(len(data[1]))} {
			t.Errorf("counters %+v", c)
		}
		if int(s.leg[0].messages+s.leg[1].messages) != len(h.messages) {
			t.Errorf("%d and %d messages, the handler saw %d", s.leg[0].messages, s.leg[1].messages, len(h.messages))
		}
	})
}
