package daemon

import (
	"strings"
	"testing"

	"github.com/rtd-project/rtd/internal/wiretest"
	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

func TestConfigTellsWhatIsInForceAndWhyItIs(t *testing.T) {
	r := startRig(t, wiretest.NewUpstream(t, wiretest.Ready), 1, func(c *Config) {
		c.Path = "/etc/rtd/rtd.yaml"
		c.Values = []Value{
			{Key: "log.level", Value: "trace", Origin: "rtd.yaml:9:10"},
			{Key: "routes[0].pool.size", Value: "1", Origin: "default", Variable: "REALTIME_POOL_SIZE"},
			{Key: "upstreams[0].url", Value: "wss://example.com/v1?a=" + testKey, Origin: "--upstream"},
			{Key: "relay.pollers", Note: "as many as suit", Origin: "default", Fixed: true},
		}
	})
	c, ctx := r.control(), t.Context()
	f := func(want ...string) {
		t.Helper()
		res := must(c.Config(ctx))
		var got []string
		for _, v := range res.GetValues() {
			got = append(got, strings.TrimSpace(v.GetKey()+" "+v.GetValue()+" "+v.GetOrigin()))
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") || res.GetConfigPath() != "/etc/rtd/rtd.yaml" {
			t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	resize := func(size uint32) {
		t.Helper()
		if _, _, err := c.ResizePool(ctx, "", size); err != nil {
			t.Fatal(err)
		}
	}
	const url = "upstreams[0].url wss://example.com/v1?a=[redacted] --upstream"
	f("log.level trace rtd.yaml:9:10", "routes[0].pool.size 1 default", url, "relay.pollers  default")

	must(c.SetLogLevel(ctx, rtdv1.LogLevel_LOG_LEVEL_WARN))
	resize(3)
	f("log.level warn control socket", "routes[0].pool.size 3 control socket", url, "relay.pollers  default")

	resize(1)
	_, _, err := c.ResetLogLevel(ctx)
	if err != nil {
		t.Fatal(err)
	}
	f("log.level trace rtd.yaml:9:10", "routes[0].pool.size 1 default", url, "relay.pollers  default")
}
