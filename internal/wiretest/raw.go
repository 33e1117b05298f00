package wiretest

import "time"

// TryReadHead reads up to and with the empty line of a head, for callers that cannot know which answer they get.
func (p *Peer) TryReadHead() (string, error) { return p.readHead() }

// TryReadRaw reads what there is, at most 4 KiB, until deadline.
func (p *Peer) TryReadRaw(deadline time.Time) ([]byte, error) {
	if err := p.Conn.SetReadDeadline(deadline); err != nil {
		return nil, err
	}
	b := make([]byte, 4<<10)
	n, err := p.br.Read(b)
	return b[:n], err
}

// SendWithFIN writes b and ends this end's sending, both in one segment on Linux.
func (p *Peer) SendWithFIN(b []byte) {
	p.t.Helper()
	cork(p.t, p.Conn)
	p.Send(b)
	p.FIN()
}
