package client

import (
	"context"
	"errors"
	"io"
	"iter"

	"google.golang.org/grpc"
)

// stream yields what a server sends until it ends, fails or the loop is left. Each
// loop opens a stream of its own.
func stream[M, T any](ctx context.Context, c *Client, open func(context.Context) (grpc.ServerStreamingClient[M], error), pick func(*M) T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel() // this is what tells the server
		var none T
		source, err := open(ctx)
		if err != nil {
			yield(none, c.fail(err))
			return
		}
		for {
			message, err := source.Recv()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(none, c.fail(err))
				return
			}
			if !yield(pick(message), nil) {
				return
			}
		}
	}
}
