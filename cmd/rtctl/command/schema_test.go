package command

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestSchemaScreens(t *testing.T) {
	golden(t, "schema.txt", &fake{socket: "/nowhere/rtd.sock"}) // it needs no daemon
}

// A field without a meaning, and a meaning without a field, is a drift.
func TestSchemaExplainsEveryField(t *testing.T) {
	explained := newTypeWalk().meanings
	for _, d := range documentSchema().Documents {
		for _, f := range d.Fields {
			name := d.Name + "." + f.Name
			if explained[name] == "" {
				t.Errorf("schema.txt does not say what %s means", name)
			}
			if f.Type == "time" && f.Unit == "" || strings.Contains(f.Name, ",") {
				t.Errorf("%s is %+v", name, f)
			}
			delete(explained, name)
		}
	}
	for name := range explained {
		t.Errorf("schema.txt explains %s, which is in no document", name)
	}
}

// withoutSchema are the commands that print no document: a JSON Schema, a script, a text.
var withoutSchema = []string{"config schema", "completion", "help"}

func TestSchemaKnowsEveryCommand(t *testing.T) {
	var explained []string
	for _, c := range documentSchema().Commands {
		explained = append(explained, c.Command)
	}
	walk(newRoot(&app{format: formatTable}), func(cmd *cobra.Command) {
		name := strings.TrimPrefix(strings.TrimPrefix(cmd.CommandPath(), "rtctl"), " ")
		if cmd.HasSubCommands() {
			return
		}
		known := slices.Contains(explained, name)
		if known == slices.Contains(withoutSchema, name) {
			t.Errorf("%s: the schema explains it: %t", name, known)
		}
		explained = slices.DeleteFunc(explained, func(s string) bool { return s == name })
	})
	if len(explained) > 0 {
		t.Errorf("the schema explains %q, which are no commands", explained)
	}
}

// Every document has a golden file that holds it.
func TestEveryDocumentIsGolden(t *testing.T) {
	golden := map[string]bool{
		"sim":           true, // its port differs each time: TestSimPrintsJSONOnOneLine reads it
		"bench connect": true, // bench-json.txt, of a report that is made up
		"bench peers":   true, // bench-peers.txt
	}
	files, err := filepath.Glob(filepath.Join("testdata", "*.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			line, ok := strings.CutPrefix(strings.TrimSpace(line), "$ rtctl ")
			if !ok || !strings.Contains(line, " -o json") {
				continue
			}
			if cmd, _, err := newRoot(&app{format: formatTable}).Find(split(line)); err == nil {
				golden[commandName(cmd)] = true
			}
		}
	}
	for _, c := range documentSchema().Commands {
		if !golden[c.Command] {
			t.Errorf("no golden file has a line with %s -o json", c.Command)
		}
	}
}

// The metrics are those of docs/metrics.md, which the daemon's own test holds to what it serves.
func TestSchemaMetricsAreThoseOfTheirPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	for line := range strings.Lines(string(page)) {
		if !strings.HasPrefix(line, "| `rtd_") {
			continue
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		for i := range cells {
			cells[i] = strings.TrimSpace(strings.NewReplacer("`", "", ",", "", "–", "").Replace(cells[i]))
			if i == 3 {
				cells[i] = strings.TrimSpace(strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")[i])
			}
		}
		if len(cells) != 4 {
			t.Fatalf("not four cells: %s", line)
		}
		b.WriteString(strings.Join(cells, "\t") + "\n")
	}
	if *update {
		if err := os.WriteFile("schema_metrics.txt", b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if b.String() != schemaMetrics || b.Len() == 0 {
		t.Errorf("schema_metrics.txt is not what docs/metrics.md says (go test -run TestSchemaMetrics -update rewrites it)")
	}
}

func TestSchemaOfAMetric(t *testing.T) {
	var doc schemaDocument
	var out bytes.Buffer
	if status := execute(t.Context(), []string{"schema", "-o", "json"}, &out, &out); status != 0 {
		t.Fatal(out.String())
	}
	if err := json.Unmarshal(out.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	f := func(name, kind, unit string, labels ...string) {
		t.Helper()
		i := slices.IndexFunc(doc.Metrics, func(m schemaMetricDocument) bool { return m.Name == name })
		if i < 0 {
			t.Fatalf("%s is not there", name)
		}
		if m := doc.Metrics[i]; m.Kind != kind || m.Unit != unit || !slices.Equal(m.Labels, labels) || m.Meaning == "" {
			t.Errorf("%+v", m)
		}
	}
	f("rtd_relay_bytes_total", "counter", "bytes", "direction")
	f("rtd_setup_duration_seconds", "histogram", "seconds", "phase", "target", "result")
	f("rtd_tokens_total", "counter", "tokens", "direction", "modality", "target", "result")
	f("rtd_ready", "gauge", "")
	if strings.Contains(out.String(), `: null`) {
		t.Error("a list is null")
	}
}

// The page for scripts names the document of every command; in a row, what is said once of a group is not said again.
func TestEveryDocumentIsOnThePage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "rtctl.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(page), "| command | document |\n")
	if !ok {
		t.Fatal("docs/rtctl.md has no table of documents")
	}
	table, _, _ = strings.Cut(table, "\n\n")
	named := map[string]bool{}
	for row := range strings.Lines(table) {
		group := ""
		for command := range strings.SplitSeq(strings.Split(row, "|")[1], ",") {
			command = strings.Trim(command, " `")
			if before, _, ok := strings.Cut(command, " "); ok {
				group = before + " "
			}
			named[command], named[group+command] = true, true
		}
	}
	for _, c := range documentSchema().Commands {
		if !named[c.Command] {
			t.Errorf("docs/rtctl.md does not have the document of %s", c.Command)
		}
	}
}
