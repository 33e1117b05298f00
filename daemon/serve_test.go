package daemon

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/rtd-project/rtd/internal/wiretest"
)

// Whoever reads of a refused client wants to know what it asked for, also where that was the fault.
func TestARefusalNamesTheModelThatWasAskedFor(t *testing.T) {
	up := wiretest.NewUpstream(t, wiretest.Ready)
	r := startRig(t, up, 0, keyed())
	f := func(name, path, want string, status int, code string, lines ...string) {
		t.Helper()
		before := len(r.log.String())
		r.refused(status, code, wiretest.HSWith(path, lines...))
		logged := r.log.String()[before:]
		for line := range strings.Lines(logged) {
			var entry struct {
				Message string `json:"@message"`
				Model   string `json:"model"`
			}
			if json.Unmarshal([]byte(line), &entry) == nil && entry.Message == "session refused" {
				if entry.Model != want {
					t.Errorf("%s: logged as %q, want %q", name, entry.Model, want)
				}
				return
			}
		}
		t.Errorf("%s: no line: %s", name, logged)
	}
	key := bearer + clientKey
	token := r.mint(t, "", key)
	r.session(bearer + token)

	f("a model without a route", "/v1/realtime?model=other", "other", http.StatusNotFound, "model_not_found", key)
	f("a token that was used", "", "mock", http.StatusUnauthorized, "token_used", bearer+token)
	f("no key", "", "mock", http.StatusUnauthorized, "invalid_api_key")
	f("no model", "/v1/realtime", "", http.StatusBadRequest, "missing_model", key)
	f("another path", "/v1/nothing?model=other", "other", http.StatusNotFound, "unknown_path", key)
	f("a key in place of a model", "/v1/realtime?model="+clientKey, "[redacted]", http.StatusNotFound, "model_not_found", key)
	long := strings.Repeat("é", maxLoggedModel)
	f("a long one", "/v1/realtime?model="+url.QueryEscape(long), long[:maxLoggedModel]+"…", http.StatusBadRequest, "invalid_parameter", key)
}
