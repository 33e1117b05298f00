package daemon

import (
	"bufio"
	"io"
	"runtime/pprof"

	"google.golang.org/grpc"

	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

// diagnosticPiece bounds the data of one message, in bytes.
const diagnosticPiece = 64 << 10

// diagnostic is one file of what only the daemon can tell of its own inside.
type diagnostic struct {
	name  string
	write func(d *Daemon, w io.Writer) error
}

// diagnostics are all of them. None may tell the contents of memory: a dump of goroutines is of the kind that has no arguments.
var diagnostics = []diagnostic{
	{"goroutines.txt", func(_ *Daemon, w io.Writer) error { return pprof.Lookup("goroutine").WriteTo(w, 1) }},
	{"heap.pb.gz", func(_ *Daemon, w io.Writer) error { return pprof.Lookup("heap").WriteTo(w, 0) }},
	{"log.txt", func(d *Daemon, w io.Writer) error {
		_, err := w.Write(d.redact.Bytes(d.logTail.Lines())) // once more, for secrets that came to be known since
		return err
	}},
}

func (s *daemonService) CollectDiagnostics(_ *rtdv1.CollectDiagnosticsRequest, stream grpc.ServerStreamingServer[rtdv1.CollectDiagnosticsResponse]) error {
	for _, part := range diagnostics {
		w := bufio.NewWriterSize(&diagnosticWriter{stream, part.name}, diagnosticPiece)
		if err := part.write(s.d, w); err != nil {
			return err
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// diagnosticWriter sends what is written to it as pieces of one file.
type diagnosticWriter struct {
	stream grpc.ServerStreamingServer[rtdv1.CollectDiagnosticsResponse]
	name   string
}

// Write implements io.Writer. Send is done with the data when it returns.
func (w *diagnosticWriter) Write(p []byte) (int, error) {
	for sent := 0; sent < len(p); {
		piece := p[sent:min(len(p), sent+diagnosticPiece)]
		if err := w.stream.Send(&rtdv1.CollectDiagnosticsResponse{Name: w.name, Data: piece}); err != nil {
			return sent, err
		}
		sent += len(piece)
	}
	return len(p), nil
}
