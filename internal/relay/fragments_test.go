package relay

import "testing"

func TestTooManyFragmentsEndTheSession(t *testing.T) {
	onEach(t, Config{MaxFragments: 3}, func(b *bench) {
		p := b.pair(Upstream{}, Client{})
		p.cl.SendHex("01 80" + z + "00 80" + z + "80 80" + z + "01 80" + z + "00 80" + z + "00 80" + z)
		p.up.ExpectHex("01 80" + z + "00 80" + z + "80 80" + z + "01 80" + z + "00 80" + z + "00 80" + z)
		p.cl.SendHex("00 80" + z)
		p.cl.ExpectClose(1009)
		p.cl.ExpectEOF()
		p.up.ExpectClose(1001)

		p = b.pair(Upstream{}, Client{LossEvent: []byte(lossEvent)})
		p.up.SendHex("01 00 00 00 00 00 80 00")
		p.cl.ExpectHex("01 00 00 00 00 00")
		p.cl.ExpectClose(1011)
		p.up.ExpectClose(1009)
	})
}
