package config

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

var update = flag.Bool("update", false, "write the generated files instead of comparing with them")

// Where generated and described files are, from here.
const (
	root          = "../.."
	schemaFile    = "docs/rtd.schema.json"
	referenceFile = "docs/configuration.md"
	exampleFile   = "rtd.example.yaml"
)

func compare(t *testing.T, name string, want []byte) {
	t.Helper()
	path := filepath.Join(root, name)
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is stale (%v): go test ./internal/config -update writes it", name, err)
	}
}

func TestTheCommittedSchemaIsCurrent(t *testing.T)    { compare(t, schemaFile, Schema()) }
func TestTheCommittedReferenceIsCurrent(t *testing.T) { compare(t, referenceFile, []byte(Reference())) }

func TestTheReferenceDescribesEveryKey(t *testing.T) {
	page := Reference()
	f := oneOfEach()
	walk(f.keys(), "", func(path string, k key) {
		row := "| `" + k.name + "` | "
		variable := strings.ReplaceAll(envName(path, k), "_0_", "_N_")
		if !strings.Contains(page, row) || !strings.Contains(page, "`"+variable+"`") {
			t.Errorf("%s has no row with %s", path, variable)
		}
		if k.doc == "" || !strings.HasSuffix(k.doc, ".") {
			t.Errorf("%s is not described: %q", path, k.doc)
		}
	})
}

func TestEveryVariableIsOneKeys(t *testing.T) {
	f := oneOfEach()
	seen := map[string]string{ConfigVariable: "the file"}
	walk(f.keys(), "", func(path string, k key) {
		name := envName(path, k)
		if other := seen[name]; other != "" {
			t.Errorf("%s is the variable of %s and of %s", name, other, path)
		}
		seen[name] = path
	})
}

func readExample(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, exampleFile))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A key in the example that is not needed is commented out, without a space behind the #.
var commentedKey = regexp.MustCompile(`(?m)^( *)#([a-z_0-9]+:|- [a-z_0-9]+:)`)

func uncommented(text string) string { return commentedKey.ReplaceAllString(text, "$1$2") }

func TestTheExampleLoads(t *testing.T) {
	mustLoad(t, readExample(t))
}

func TestTheExampleLoadsWithEverythingInIt(t *testing.T) {
	c := mustLoad(t, uncommented(readExample(t)))
	for _, v := range c.Values() {
		key := regexp.MustCompile(`\[[0-9]+\]`).ReplaceAllString(v.Key, "[0]")
		if _, suffix := cutSecretSuffix(v.Key); suffix == "" && v.Origin == (Origin{}) && !givenElsewhere(c, key) {
			t.Errorf("the example does not name %s", v.Key)
		}
	}
	for _, suffix := range []string{"api_key_env", "api_key_file", "api_key_credential", "key_env", "key_file", "key_credential", "secret_env", "secret_file", "secret_credential", "value_env", "value_file", "value_credential", "sha256"} {
		if !regexp.MustCompile(`\b` + suffix + `\b`).MatchString(readExample(t)) {
			t.Errorf("the example does not name %s", suffix)
		}
	}
}

// givenElsewhere reports whether another item of the list gives the key.
func givenElsewhere(c *Config, key string) bool {
	for path := range c.origins {
		if regexp.MustCompile(`\[[0-9]+\]`).ReplaceAllString(path, "[0]") == key {
			return true
		}
	}
	return false
}

// What the example shows as commented out is what holds without it, where that is a constant.
func TestTheExampleShowsTheDefaults(t *testing.T) {
	bare, full := mustLoad(t, readExample(t)), mustLoad(t, uncommented(readExample(t)))
	for _, v := range full.Values() {
		if strings.HasPrefix(v.Key, "upstreams[") && !strings.HasPrefix(v.Key, "upstreams[0]") || strings.HasPrefix(v.Key, "routes[1]") || strings.HasPrefix(v.Key, "presets[") || strings.HasPrefix(v.Key, "clients.keys") || strings.HasPrefix(v.Key, "traces.headers") {
			continue // items that are commented out as a whole
		}
		if b := value(t, bare, v.Key); b.Value != "" && b.Value != v.Value {
			t.Errorf("%s: the example shows %s, and it is %s", v.Key, v.Value, b.Value)
		}
	}
}

func TestTheExampleNamesTheSchema(t *testing.T) {
	if first, _, _ := strings.Cut(readExample(t), "\n"); first != "# yaml-language-server: $schema="+schemaFile {
		t.Errorf("the first line is %q", first)
	}
}

// accepts checks a value against as much of JSON Schema as ours uses.
func accepts(schema map[string]any, v any) bool {
	if words, ok := schema["enum"].([]any); ok && !slices.Contains(words, v) {
		return false
	}
	switch schema["type"] {
	case "object":
		return acceptsObject(schema, v)
	case "array":
		list, ok := v.([]any)
		least, _ := schema["minItems"].(float64)
		item, _ := schema["items"].(map[string]any)
		return ok && len(list) >= int(least) && !slices.ContainsFunc(list, func(v any) bool { return !accepts(item, v) })
	case "string":
		s, ok := v.(string)
		pattern, _ := schema["pattern"].(string)
		return ok && s != "" && regexp.MustCompile(pattern).MatchString(s)
	case "boolean":
		_, ok := v.(bool)
		return ok
	case "integer", "number":
		n, ok := v.(float64)
		least, _ := schema["minimum"].(float64)
		most, _ := schema["maximum"].(float64)
		return ok && n >= least && n <= most && (schema["type"] == "number" || n == float64(int64(n)))
	}
	return false
}

func acceptsObject(schema map[string]any, v any) bool {
	o, ok := v.(map[string]any)
	if !ok {
		return false
	}
	if required, ok := schema["required"].([]any); ok {
		for _, name := range required {
			if _, ok := o[name.(string)]; !ok {
				return false
			}
		}
	}
	properties, closed := schema["properties"].(map[string]any)
	if least, _ := schema["minProperties"].(float64); !closed {
		return len(o) >= int(least)
	}
	for name, v := range o {
		property, ok := properties[name].(map[string]any)
		if !ok || !accepts(property, v) {
			return false
		}
	}
	return true
}

// asJSON reads YAML as what JSON makes of it.
func asJSON(t *testing.T, text string) any {
	t.Helper()
	b, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestTheSchemaAgreesWithTheLoader(t *testing.T) {
	var schema map[string]any
	if err := json.Unmarshal(Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{plain, readExample(t), uncommented(readExample(t))} {
		if !accepts(schema, asJSON(t, text)) {
			t.Errorf("the schema refuses\n%s", text)
		}
	}
	if accepts(schema, asJSON(t, plain+"lisen: x\n")) || accepts(schema, asJSON(t, "log: {level: info}")) {
		t.Error("the schema takes a key that is none, or misses none that must be there")
	}
	f := oneOfEach()
	walk(f.keys(), "", func(path string, k key) {
		for _, bad := range badValues[k.scalar.kind] {
			if beyondSchema(k, bad) {
				continue
			}
			doc := everySection()
			put(t, &doc, path, bad)
			if text, _ := render(doc); accepts(schema, asJSON(t, text)) {
				t.Errorf("the schema takes %s: %s", path, bad)
			}
		}
	})
}

// beyondSchema says which bad values a schema cannot find: what it cannot say, and what is lost on the way to JSON.
func beyondSchema(k key, bad string) bool {
	switch {
	case k.scalar.kind == kindObject:
		return strings.HasPrefix(bad, "{") && bad != "{}" || bad[0] == '&'
	case strings.ContainsAny(bad, "&*!") || strings.HasPrefix(bad, ".") || strings.Contains(bad, "TRUE"):
		return true
	case bad == "0x10" || bad == "1_000" || bad == "1e3" || bad == "1e300" || bad == "999999h" || bad == "99999999TiB" || bad == "99999999999999999999":
		return true
	case k.scalar.kind == kindTime:
		return bad[0] != '5' && bad[0] != '[' && bad[0] != '{' && bad[0] != '~' && bad != `""`
	case k.scalar.kind == kindText:
		return strings.Contains(bad, `\`)
	}
	return false
}
