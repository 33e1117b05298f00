package command

import (
	_ "embed"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/rtd-project/rtd/internal/bench"
)

// commandDocuments are the documents of -o json, by the commands that print them.
var commandDocuments = []struct {
	commands string
	document any
}{
	{"status, resume", statusDocument{}},
	{"ready", readyDocument{}},
	{"stats", statsDocument{}},
	{"pool list", poolsDocument{}},
	{"pool show, pool pause, pool resume, pool drain, pool recycle", poolDocument{}},
	{"pool resize", resizeDocument{}},
	{"session list, top", sessionsDocument{}},
	{"session show, session close", sessionDocument{}},
	{"session watch", sessionEventDocument{}},
	{"drain", drainingDocument{}},
	{"reload", reloadDocument{}},
	{"log-level get", logLevelDocument{}},
	{"log-level set, log-level reset", logLevelChangeDocument{}},
	{"config check", checkDocument{}},
	{"config show", []valueDocument{}},
	{"token mint", tokenDocument{}},
	{"diag", diagDocument{}},
	{"version", versionsDocument{}},
	{"schema", schemaDocument{}},
	{"sim", simDocument{}},
	{"bench connect", bench.Report{}},
	{"bench peers", bench.PeersReport{}},
}

// schemaMeanings says of every field of a document what it means: "pool.idle", a tab, the words.
//
//go:embed schema.txt
var schemaMeanings string

// schemaMetrics is the table of the metrics' page: name, kind, labels and meaning, separated by tabs.
//
//go:embed schema_metrics.txt
var schemaMetrics string

type schemaDocument struct {
	Commands  []schemaCommandDocument `json:"commands"`
	Documents []schemaTypeDocument    `json:"documents"`
	Metrics   []schemaMetricDocument  `json:"metrics"`
}

type schemaCommandDocument struct {
	Command string `json:"command"`
	Type    string `json:"type"`
	Several string `json:"several"`
}

type schemaTypeDocument struct {
	Name   string                `json:"name"`
	Fields []schemaFieldDocument `json:"fields"`
}

type schemaFieldDocument struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	Unit     string `json:"unit"`
	Nullable bool   `json:"nullable"`
	Meaning  string `json:"meaning"`
}

type schemaMetricDocument struct {
	Name    string   `json:"name"`
	Kind    string   `json:"kind"`
	Unit    string   `json:"unit"`
	Labels  []string `json:"labels"`
	Meaning string   `json:"meaning"`
}

func newSchema(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "schema [NAME]...",
		Short: "Show every field of the JSON documents and every metric, with unit and meaning",
		Long: `Show every field of the JSON documents and every metric, with unit and meaning.

It is that of this rtctl, and needs no daemon. NAME is that of a document or a metric;
without one all are shown. Fields are named by the document they
stand in; a type that is itself a document is explained under its own name. A field
whose type ends in "or null" is null where it is not known or not there. With several
--endpoint a list has the rows of all daemons, and other documents are a list with one
for each; "daemon" comes first in each row.`,
		Example: `  rtctl schema
  rtctl schema pool rtd_pool_sessions
  rtctl schema -o json | jq -r '.metrics[].name'`,
		ValidArgsFunction: completeSchema,
		RunE: func(_ *cobra.Command, args []string) error {
			doc := documentSchema()
			if len(args) > 0 {
				var err error
				if doc, err = doc.only(args); err != nil {
					return err
				}
			}
			return a.emit(doc, schemaScreen(doc)...)
		},
	}
}

func documentSchema() schemaDocument {
	doc, types := schemaDocument{Metrics: parseMetrics(schemaMetrics)}, newTypeWalk()
	for _, c := range commandDocuments {
		name := types.name(reflect.TypeOf(c.document))
		for command := range strings.SplitSeq(c.commands, ", ") {
			doc.Commands = append(doc.Commands, schemaCommandDocument{command, name, severalType(command, name, reflect.TypeOf(c.document))})
		}
	}
	doc.Documents = types.found
	return doc
}

// severalType is the type of what a command prints for several daemons, "" if it is done at one, or asks none.
func severalType(command, name string, t reflect.Type) string {
	switch s := scopes[command]; {
	case s != eachOf && s != whoeverHas:
		return ""
	case command == "session watch" || t.Kind() == reflect.Slice || listKey(t) != "":
		return name // each line, or each row, begins with the daemon
	}
	return "list of " + name
}

func (d schemaDocument) names() []string {
	var names []string
	for _, one := range d.Documents {
		names = append(names, one.Name)
	}
	for _, one := range d.Metrics {
		names = append(names, one.Name)
	}
	return names
}

// only is what has one of the names, and the commands that print it.
func (d schemaDocument) only(names []string) (schemaDocument, error) {
	part := schemaDocument{Commands: []schemaCommandDocument{}, Documents: []schemaTypeDocument{}, Metrics: []schemaMetricDocument{}}
	all := d.names()
	for _, name := range names {
		if !slices.Contains(all, name) {
			return part, usagef("schema: there is no document or metric %q; rtctl schema shows them all", name)
		}
	}
	for _, c := range d.Commands {
		if slices.Contains(names, strings.TrimPrefix(c.Type, "list of ")) {
			part.Commands = append(part.Commands, c)
		}
	}
	for _, one := range d.Documents {
		if slices.Contains(names, one.Name) {
			part.Documents = append(part.Documents, one)
		}
	}
	for _, one := range d.Metrics {
		if slices.Contains(names, one.Name) {
			part.Metrics = append(part.Metrics, one)
		}
	}
	return part, nil
}

func completeSchema(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return documentSchema().names(), cobra.ShellCompDirectiveNoFileComp
}

// typeWalk finds the documents that others lead to, each once, those that are met first in front.
type typeWalk struct {
	meanings map[string]string
	seen     map[string]bool
	found    []schemaTypeDocument
}

func newTypeWalk() *typeWalk {
	w := &typeWalk{meanings: map[string]string{}, seen: map[string]bool{}}
	for line := range strings.Lines(schemaMeanings) {
		field, meaning, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		w.meanings[field] = meaning
	}
	return w
}

// name is what a type is called; what it leads to is found on the way.
func (w *typeWalk) name(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return "time"
	case t.Kind() == reflect.Pointer:
		return w.name(t.Elem()) + " or null"
	case t.Kind() == reflect.Slice:
		return "list of " + w.name(t.Elem())
	case t.Kind() == reflect.Map:
		return "map of " + w.name(t.Elem())
	case t.Kind() == reflect.Struct:
		return w.document(t)
	case t.Kind() == reflect.Bool:
		return "boolean"
	case t.Kind() == reflect.String:
		return "string"
	case t.Kind() == reflect.Float64:
		return "number"
	}
	return "integer"
}

func (w *typeWalk) document(t reflect.Type) string {
	name := snake(strings.TrimSuffix(t.Name(), "Document"))
	if strings.HasSuffix(t.PkgPath(), "/bench") {
		name = "bench_" + name // other documents have such words for other things
	}
	if w.seen[name] {
		return name
	}
	w.seen[name] = true
	at := len(w.found)
	w.found = append(w.found, schemaTypeDocument{Name: name})
	var fields []schemaFieldDocument
	for i := range t.NumField() {
		field := t.Field(i)
		key, options, tagged := strings.Cut(field.Tag.Get("json"), ",")
		if !field.IsExported() {
			continue
		}
		kind := w.name(field.Type)
		if tagged && options == "omitempty" {
			kind = strings.TrimSuffix(kind, " or null") + " or left out"
		}
		fields = append(fields, schemaFieldDocument{
			Name: key, Type: kind, Unit: fieldUnit(name, key, field.Type),
			Nullable: field.Type.Kind() == reflect.Pointer && !tagged, Meaning: w.meanings[name+"."+key],
		})
	}
	w.found[at].Fields = fields
	return name
}

// snake turns sessionTotals into session_totals.
func snake(name string) string {
	var b strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// fieldUnit is "" for what has none.
func fieldUnit(document, key string, t reflect.Type) string {
	switch {
	case document == "token" && key == "expires_at":
		return "seconds since 1970"
	case t == reflect.TypeFor[time.Time]() || t == reflect.TypeFor[*time.Time]():
		return "RFC 3339"
	case strings.HasSuffix(key, "_ms") || document == "bench_latency":
		return "milliseconds"
	case key == "seconds" || strings.HasSuffix(key, "_seconds"):
		return "seconds"
	case strings.HasSuffix(key, "_percent"):
		return "percent"
	case strings.Contains(key, "_us_"):
		return "microseconds"
	case key == "bytes" || strings.HasSuffix(key, "_bytes"):
		return "bytes"
	case document == "usage":
		return "tokens"
	}
	return ""
}

func parseMetrics(table string) []schemaMetricDocument {
	var list []schemaMetricDocument
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		m := schemaMetricDocument{Name: cells[0], Kind: cells[1], Labels: strings.Fields(cells[2]), Meaning: cells[3]}
		for _, unit := range []string{"seconds", "bytes", "tokens"} {
			if base := strings.TrimSuffix(m.Name, "_total"); strings.HasSuffix(base, "_"+unit) {
				m.Unit = unit
			}
		}
		list = append(list, m)
	}
	return list
}

func schemaScreen(doc schemaDocument) sheet {
	commands := newTable("COMMAND", "DOCUMENT", "OF SEVERAL DAEMONS")
	for _, c := range doc.Commands {
		commands.add(c.Command, c.Type, orNone(c.Several))
	}
	fields := newTable("FIELD", "TYPE", "UNIT", "MEANING")
	for _, d := range doc.Documents {
		for _, f := range d.Fields {
			fields.add(d.Name+"."+f.Name, f.Type, orNone(f.Unit), f.Meaning)
		}
	}
	metrics := newTable("METRIC", "KIND", "UNIT", "LABELS", "MEANING")
	for _, m := range doc.Metrics {
		metrics.add(m.Name, m.Kind, orNone(m.Unit), orNone(strings.Join(m.Labels, ",")), m.Meaning)
	}
	var parts sheet
	for _, t := range []*table{commands, fields, metrics} {
		if len(t.rows) > 0 {
			parts = append(parts, t)
		}
	}
	return parts
}
