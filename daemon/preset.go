package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/rtd-project/rtd/internal/dialect"
)

// presets are those of c by name, and what is wrong with them, one line each.
func (c Config) presets() (map[string]*dialect.Preset, error) {
	all := map[string]*dialect.Preset{}
	var faults []error
	fault := func(name, format string, args ...any) {
		faults = append(faults, fmt.Errorf("preset %q: "+format, append([]any{name}, args...)...))
	}
	for _, p := range c.Presets {
		switch {
		case !isPresetName(p.Name):
			fault(p.Name, "its name must be 1 to %d visible ASCII characters", dialect.MaxPresetName)
		case all[p.Name] != nil:
			fault(p.Name, "another preset has this name; give each its own")
		case !isObject(p.Session):
			fault(p.Name, "its session is not a JSON object with at least one member")
		case len(p.Session) > dialect.MaxPreset:
			fault(p.Name, "its session has %d bytes; %d are the most", len(p.Session), dialect.MaxPreset)
		}
		all[p.Name] = &p
	}
	return all, errors.Join(faults...)
}

func isPresetName(name string) bool {
	return name != "" && len(name) <= dialect.MaxPresetName && !strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r >= 0x7f })
}

func isObject(b []byte) bool {
	var members map[string]json.RawMessage
	return json.Unmarshal(b, &members) == nil && len(members) > 0
}

// presetOf is what a session that is asked for is configured with, nil for nothing. A route's own preset is for its models:
// a session that names a call or an intent in their place has the first route for no reason of its client's.
func (r *route) presetOf(ask dialect.Ask) (*dialect.Preset, error) {
	switch {
	case ask.Preset == "" && ask.CallID == "" && ask.Intent == "":
		return r.preset, nil
	case ask.Preset == "":
		return nil, nil
	case ask.CallID != "":
		return nil, errCallPreset
	}
	if p := r.in.presets[ask.Preset]; p != nil {
		return p, nil
	}
	return nil, r.in.unknownPreset(ask.Preset)
}

// unknownPreset is the 404 of a preset that there is not.
func (rs *routes) unknownPreset(name string) error {
	known := "none is configured"
	if len(rs.presets) > 0 {
		known = "known presets: " + strings.Join(slices.Sorted(maps.Keys(rs.presets)), ", ")
	}
	return &refusal{status: http.StatusNotFound, code: "preset_not_found", message: fmt.Sprintf("there is no preset %.256q here; %s", name, known)}
}
