package daemon

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/rtd-project/rtd/internal/stats"
)

const (
	// nativeSchema makes a native bucket 2^(1/8) wide: 9%.
	nativeSchema = 3
	// nativeZero is the width of the zero bucket, in seconds: the clock's own step.
	nativeZero = 1e-9
	// exemplarLabel names the session of an exemplar; rtctl session show takes its value.
	exemplarLabel = "session_id"
)

// frozenMetric shows samples as a classic and as a native histogram at once: a scraper takes what it understands.
type frozenMetric struct {
	desc    *prometheus.Desc
	cell    *stats.Frozen
	labels  []string
	created time.Time
}

// Desc implements prometheus.Metric.
func (m *frozenMetric) Desc() *prometheus.Desc { return m.desc }

// Write implements prometheus.Metric.
func (m *frozenMetric) Write(out *dto.Metric) error {
	out.Label = prometheus.MakeLabelPairs(m.desc, m.labels)
	h := &dto.Histogram{
		SampleCount:      proto.Uint64(m.cell.Count()),
		SampleSum:        proto.Float64(m.cell.Sum().Seconds()),
		CreatedTimestamp: timestamppb.New(m.created),
		Schema:           proto.Int32(nativeSchema),
		ZeroThreshold:    proto.Float64(nativeZero),
		ZeroCount:        proto.Uint64(0),
	}
	m.writeClassic(h)
	m.writeNative(h)
	out.Histogram = h
	return nil
}

func (m *frozenMetric) writeClassic(h *dto.Histogram) {
	counts := make([]uint64, len(stats.Bounds))
	i := 0
	var n uint64
	m.cell.Each(func(middle time.Duration, samples uint64) {
		for ; i < len(stats.Bounds) && middle > stats.Bounds[i]; i++ {
			counts[i] = n
		}
		n += samples
	})
	for ; i < len(stats.Bounds); i++ {
		counts[i] = n
	}
	for i, bound := range stats.Bounds {
		h.Bucket = append(h.Bucket, &dto.Bucket{
			CumulativeCount: proto.Uint64(counts[i]), UpperBound: proto.Float64(bound.Seconds()), Exemplar: m.exemplar(i),
		})
	}
	if last := m.exemplar(len(stats.Bounds)); last != nil { // else the encoders make it up
		h.Bucket = append(h.Bucket, &dto.Bucket{CumulativeCount: proto.Uint64(n), UpperBound: proto.Float64(math.Inf(1)), Exemplar: last})
	}
}

// exemplar is that of a bucket, nil when it has none.
func (m *frozenMetric) exemplar(bucket int) *dto.Exemplar {
	if len(m.cell.Exemplars) == 0 || m.cell.Exemplars[bucket].ID == "" {
		return nil
	}
	e := m.cell.Exemplars[bucket]
	return &dto.Exemplar{
		Label:     []*dto.LabelPair{{Name: proto.String(exemplarLabel), Value: proto.String(e.ID)}},
		Value:     proto.Float64(e.Value.Seconds()),
		Timestamp: timestamppb.New(e.At),
	}
}

// writeNative renders the buckets as spans of neighbours and the differences of their counts.
func (m *frozenMetric) writeNative(h *dto.Histogram) {
	var index int32 // of the bucket that was added to last
	var count, before int64
	flush := func() {
		if count > 0 {
			h.PositiveDelta = append(h.PositiveDelta, count-before)
			before, count = count, 0
		}
	}
	m.cell.Each(func(middle time.Duration, samples uint64) {
		if middle.Seconds() <= nativeZero {
			*h.ZeroCount += samples
			return
		}
		at := int32(math.Ceil(math.Log2(middle.Seconds()) * (1 << nativeSchema)))
		switch spans := len(h.PositiveSpan); {
		case spans == 0:
			h.PositiveSpan = append(h.PositiveSpan, &dto.BucketSpan{Offset: proto.Int32(at), Length: proto.Uint32(1)})
		case at == index:
		case at == index+1:
			flush()
			*h.PositiveSpan[spans-1].Length++
		default:
			flush()
			h.PositiveSpan = append(h.PositiveSpan, &dto.BucketSpan{Offset: proto.Int32(at - index - 1), Length: proto.Uint32(1)})
		}
		index = at
		count += int64(samples)
	})
	flush()
	for i := range m.cell.Exemplars {
		if e := m.exemplar(i); e != nil {
			h.Exemplars = append(h.Exemplars, e)
		}
	}
}
