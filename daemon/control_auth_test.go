package daemon

import (
	"strings"
	"testing"

	"google.golang.org/grpc/peer"

	"github.com/rtd-project/rtd/internal/unixsock"
)

func TestWhoMayOnlyReadIsToldOfEachAdminOnce(t *testing.T) {
	ctx := peer.NewContext(t.Context(), &peer.Peer{AuthInfo: unixsock.Peer{UID: 7, GID: 7}})
	f := func(a admins, want string) {
		t.Helper()
		if err := a.check(ctx, "/rtd.v1.PoolService/ResizePool"); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%v, want an error that ends with %q", err, want)
		}
	}
	f(admins{uids: []uint32{0, 0}}, "the admin uids [0] or gids []")
	f(admins{uids: []uint32{9, 0, 9}, gids: []uint32{5, 4, 5}}, "the admin uids [0 9] or gids [4 5]")
}
