package sim

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"time"
)

// StampSize is how many bytes a Stamp takes at the beginning of a chunk of audio. They are whole samples, and 64 whole
// characters of base64, so that a chunk can be stamped in its encoded form.
const StampSize = 48

var stampMagic = []byte("rtdstamp")

// Stamp marks a chunk of audio, so that whoever has sent it knows it again. Times are nanoseconds since 1970 of the
// host's wall clock: they compare between the processes of one host.
type Stamp struct {
	Stream  uint32 // whose it is
	Seq     uint32 // of the chunk in its stream
	Echo    uint32 // of the chunk among those that the upstream sent back on this connection
	Sent    int64  // when the client wrote it
	Arrived int64  // when the upstream had read it
}

// Put writes the stamp over the first StampSize bytes of pcm.
func (s Stamp) Put(pcm []byte) {
	b := pcm[:StampSize]
	clear(b)
	copy(b, stampMagic)
	binary.LittleEndian.PutUint32(b[8:], s.Stream)
	binary.LittleEndian.PutUint32(b[12:], s.Seq)
	binary.LittleEndian.PutUint32(b[16:], s.Echo)
	binary.LittleEndian.PutUint64(b[24:], uint64(s.Sent))
	binary.LittleEndian.PutUint64(b[32:], uint64(s.Arrived))
}

// ReadStamp reads the stamp at the beginning of pcm; ok is false when there is none.
func ReadStamp(pcm []byte) (s Stamp, ok bool) {
	if len(pcm) < StampSize || !bytes.HasPrefix(pcm, stampMagic) {
		return s, false
	}
	return Stamp{
		Stream: binary.LittleEndian.Uint32(pcm[8:]), Seq: binary.LittleEndian.Uint32(pcm[12:]), Echo: binary.LittleEndian.Uint32(pcm[16:]),
		Sent: int64(binary.LittleEndian.Uint64(pcm[24:])), Arrived: int64(binary.LittleEndian.Uint64(pcm[32:])),
	}, true
}

// echo sends a stamped chunk back as a delta of audio, with its arrival in the stamp. Audio without a stamp is just heard.
func (c *conn) echo(b *batch, pcm []byte) {
	s, ok := ReadStamp(pcm)
	if !ok {
		return
	}
	s.Arrived, s.Echo = time.Now().UnixNano(), c.echoes
	c.echoes++
	s.Put(pcm)
	b.audio++
	c.begin(b, c.names().audio+".delta").plain("response_id", "resp_echo").plain("item_id", "item_echo").num("output_index", 0).num("content_index", 0)
	b.key("delta")
	b.event = append(b.event, '"')
	b.event = base64.StdEncoding.AppendEncode(b.event, pcm)
	b.event = append(b.event, '"')
	b.end()
}
