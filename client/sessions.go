package client

import (
	"context"
	"iter"

	"google.golang.org/grpc"

	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

// Sessions yields the open sessions by id, those of one pool (name or key) if it is
// not "", and of each what view says: SESSION_VIEW_BASIC is for who lists again and
// again. It asks for a page at a time: sessions that open or end meanwhile may or may
// not be among them. An error is the last pair.
func (c *Client) Sessions(ctx context.Context, pool string, view rtdv1.SessionView) iter.Seq2[*rtdv1.Session, error] {
	return func(yield func(*rtdv1.Session, error) bool) {
		for token := ""; ; {
			page, err := c.sessions.ListSessions(ctx, &rtdv1.ListSessionsRequest{Pool: pool, PageToken: token, View: view})
			if err != nil {
				yield(nil, c.fail(err))
				return
			}
			for _, session := range page.GetSessions() {
				if !yield(session, nil) {
					return
				}
			}
			if token = page.GetNextPageToken(); token == "" {
				return
			}
		}
	}
}

// Session returns one open session, or ErrNotFound.
func (c *Client) Session(ctx context.Context, id string) (*rtdv1.Session, error) {
	res, err := c.sessions.GetSession(ctx, &rtdv1.GetSessionRequest{Id: id})
	return res.GetSession(), c.fail(err)
}

// CloseSession sends a Close frame to both ends of a session and does not wait for
// them. Codes: 1000, 1001, 1002, 1007, 1008, 1009, 1011, 1012, 1013, or 0 for 1001;
// the reason has at most 123 bytes. ErrInvalid otherwise.
func (c *Client) CloseSession(ctx context.Context, id string, code uint32, reason string) (*rtdv1.Session, error) {
	res, err := c.sessions.CloseSession(ctx, &rtdv1.CloseSessionRequest{Id: id, Code: code, Reason: reason})
	return res.GetSession(), c.fail(err)
}

// WatchSessions yields the sessions that are open, then every one that opens or ends.
// The last pair of a stream that did not end by itself holds the error.
func (c *Client) WatchSessions(ctx context.Context) iter.Seq2[*rtdv1.WatchSessionsResponse, error] {
	return stream(ctx, c, func(ctx context.Context) (grpc.ServerStreamingClient[rtdv1.WatchSessionsResponse], error) {
		return c.sessions.WatchSessions(ctx, &rtdv1.WatchSessionsRequest{})
	}, func(event *rtdv1.WatchSessionsResponse) *rtdv1.WatchSessionsResponse { return event })
}
