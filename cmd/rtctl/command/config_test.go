package command

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

func (f *fake) ReloadDaemon(context.Context, *rtdv1.ReloadDaemonRequest) (*rtdv1.ReloadDaemonResponse, error) {
	if f.faults != "" {
		return nil, status.Error(codes.FailedPrecondition, f.faults)
	}
	return &rtdv1.ReloadDaemonResponse{Info: &rtdv1.DaemonInfo{ConfigPath: "/etc/rtd/rtd.yaml"}, PoolsAdded: 1, PoolsRemoved: 2, PoolsRecycled: 3}, nil
}

func TestConfigScreens(t *testing.T) {
	golden(t, "config.txt", &fake{socket: "/nowhere/rtd.sock"}) // none of it needs a daemon
}

func (f *fake) GetConfig(context.Context, *rtdv1.GetConfigRequest) (*rtdv1.GetConfigResponse, error) {
	return &rtdv1.GetConfigResponse{ConfigPath: "/etc/rtd/rtd.yaml", Values: []*rtdv1.ConfigValue{
		{Key: "listen", Value: "127.0.0.1:4001", Origin: "default", Variable: "RTD_LISTEN", Fixed: true},
		{Key: "upstreams[0].api_key_env", Value: "OPENAI_API_KEY", Origin: "/etc/rtd/rtd.yaml:4:18"},
		{Key: "upstreams[0].model", Origin: "default"},
		{Key: "routes[0].pool.size", Value: "64", Origin: "control socket"},
		{Key: "relay.pollers", Note: "as many as suit the CPUs", Origin: "default", Fixed: true},
	}}, nil
}

func TestLiveConfigScreens(t *testing.T) {
	golden(t, "config-live.txt", serve(t, newFake(warmPool())))
}

func TestReloadScreens(t *testing.T) {
	golden(t, "reload.txt", serve(t, newFake(warmPool())))
	refusing := newFake(warmPool())
	refusing.faults = "rtd.yaml:1:1: lisen: there is no such key; did you mean listen?\nrtd.yaml:7:11: routes[0].pool.size: \"many\" is not a whole number"
	golden(t, "reload-refused.txt", serve(t, refusing))
}

func TestConfigSchemaIsJSON(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if status := execute(t.Context(), []string{"config", "schema"}, &stdout, &stderr); status != 0 || !json.Valid(stdout.Bytes()) {
		t.Errorf("status %d, %s%s", status, &stdout, &stderr)
	}
}
