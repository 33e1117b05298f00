package config

import (
	"strconv"
	"strings"
	"testing"
)

// entry is a key of a YAML document under construction: with a value as it is written, keys of its own or items.
type entry struct {
	name  string
	raw   string
	keys  []*entry
	items [][]*entry
}

// oneOfEach is a file with its defaults and an item in every list.
func oneOfEach() *File {
	f := newFile()
	f.Upstreams, f.Presets, f.Routes, f.Clients.Keys, f.Traces.Headers = []Upstream{{}}, []Preset{{}}, []Route{{}}, []Key{{}}, []Header{{}}
	return f
}

// everySection has an item in every list, and nothing but what must be there.
func everySection() []*entry {
	scalar := func(name, raw string) *entry { return &entry{name: name, raw: raw} }
	return []*entry{
		{name: "upstreams", items: [][]*entry{{scalar("name", "up"), scalar("provider", "compatible"), scalar("url", "wss://example.com/v1"), {name: "tls"}}}},
		{name: "routes", items: [][]*entry{{scalar("models", "[m]"), scalar("upstream", "up"), {name: "pool"}}}},
		{name: "clients", keys: []*entry{{name: "keys", items: [][]*entry{{scalar("name", "k"), scalar("key_env", "KEY")}}}}},
		{name: "traces", keys: []*entry{scalar("endpoint", "https://example.com"), {name: "headers", items: [][]*entry{{scalar("name", "x"), scalar("value_env", "KEY")}}}}},
		{name: "presets", items: [][]*entry{{scalar("name", "p"), scalar("session", "{type: realtime}")}}},
	}
}

// put sets the value of a path, where it is or at the end of what it belongs to.
func put(t *testing.T, keys *[]*entry, path, raw string) {
	t.Helper()
	name, rest, deeper := strings.Cut(path, ".")
	name, number, isItem := strings.Cut(strings.TrimSuffix(name, "]"), "[")
	var e *entry
	for _, have := range *keys {
		if have.name == name {
			e = have
		}
	}
	if e == nil {
		e = &entry{name: name}
		*keys = append(*keys, e)
	}
	switch {
	case !deeper:
		e.raw, e.keys, e.items = raw, nil, nil
	case isItem:
		i, err := strconv.Atoi(number)
		if err != nil || i >= len(e.items) {
			t.Fatalf("there is no %s", path)
		}
		put(t, &e.items[i], rest, raw)
	default:
		put(t, &e.keys, rest, raw)
	}
}

// places are where the values of a rendered document stand: line and column, by path.
type places map[string][2]int

// render writes a document in block style.
func render(keys []*entry) (string, places) {
	var b strings.Builder
	at := places{}
	renderKeys(&b, keys, "", "", "", at)
	return b.String(), at
}

func renderKeys(b *strings.Builder, keys []*entry, path, first, indent string, at places) {
	for i, e := range keys {
		lead := indent
		if i == 0 {
			lead = first
		}
		own := join(path, e.name)
		head := lead + e.name + ":"
		if e.raw == "" && e.keys == nil && e.items == nil {
			continue // a group without keys is not written
		}
		b.WriteString(head)
		line := strings.Count(b.String(), "\n") + 1
		if e.raw != "" {
			at[own] = [2]int{line, len(head) + 2}
			b.WriteString(" " + e.raw + "\n")
			continue
		}
		at[own] = [2]int{line, len(lead) + 1}
		b.WriteString("\n")
		renderKeys(b, e.keys, own, indent+"  ", indent+"  ", at)
		for i, item := range e.items {
			renderKeys(b, item, index(own, i), indent+"  - ", indent+"    ", at)
		}
	}
}

func TestTheDocumentOfTheTestsLoads(t *testing.T) {
	text, _ := render(everySection())
	if _, err := loadText(text); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
}
