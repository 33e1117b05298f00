package daemon

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

// Value is one value of the configuration, as people are told it.
type Value struct {
	Key      string // its path
	Value    string // "": none. Never a secret
	Note     string // what holds where there is no value
	Origin   string // where it comes from
	Variable string // of the environment, that sets it
	Fixed    bool   // holds until the next start
}

// byControl is the origin of what was changed over the control socket.
const byControl = "control socket"

func (s *daemonService) GetConfig(context.Context, *rtdv1.GetConfigRequest) (*rtdv1.GetConfigResponse, error) {
	now := s.d.current()
	resp := &rtdv1.GetConfigResponse{ConfigPath: now.cfg.Path}
	changed := s.d.changedValues(now)
	for _, v := range now.cfg.Values {
		if value, ok := changed[v.Key]; ok {
			v.Value, v.Origin = value, byControl
		}
		resp.Values = append(resp.Values, &rtdv1.ConfigValue{
			Key: v.Key, Value: s.d.redact.String(v.Value), Note: v.Note, Origin: v.Origin, Variable: v.Variable, Fixed: v.Fixed,
		})
	}
	return resp, nil
}

// changedValues are those of the keys that operators changed while the daemon ran.
func (d *Daemon) changedValues(now *settings) map[string]string {
	changed := map[string]string{}
	if level := d.log.GetLevel(); level != now.cfg.LogLevel {
		changed["log.level"] = level.String()
	}
	for i, r := range now.cfg.Routes {
		if sizes := d.poolSizes(now, r); len(sizes) > 1 || len(sizes) == 1 && sizes[0] != strconv.Itoa(r.Pool.Size) {
			changed[fmt.Sprintf("routes[%d].pool.size", i)] = strings.Join(sizes, ",")
		}
	}
	return changed
}

// poolSizes are the different sizes that the pools of a route have now.
func (d *Daemon) poolSizes(now *settings, r Route) []string {
	var sizes []string
	for _, model := range r.Models {
		in := now.routes.byModel[model]
		if in == nil {
			continue
		}
		target, err := in.target(model)
		if err != nil {
			continue
		}
		if p := d.pools.Get(target.Key); p != nil {
			if size := strconv.Itoa(p.Stats().Size); !slices.Contains(sizes, size) {
				sizes = append(sizes, size)
			}
		}
	}
	return sizes
}
