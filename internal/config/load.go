package config

import (
	"maps"
	"slices"
	"strings"

	"github.com/rtd-project/rtd/internal/files"
)

// Options say where a configuration comes from.
type Options struct {
	// Path is the file. "": none, so that the variables of a plain start (see legacy.go) count.
	Path string
	// Text is the file's, where it is in hand; nil: the file is read.
	Text []byte
	// Environ is the environment, as os.Environ returns it.
	Environ []string
	// Flags override file and environment.
	Flags []Override
	// Host: what the configuration names on this host is read and judged too: secrets, certificates, authorities, the group
	// of the control socket.
	Host bool
}

// Override is a value that a flag gives to a key.
type Override struct {
	Key    string   // path, such as routes[0].pool.size
	Values []string // one, unless the key is a list
	Flag   string   // its name, with dashes
}

// Config is a configuration and where each of its values comes from.
type Config struct {
	File
	Path string
	Text []byte // of the file, nil without one
	// Warnings are of what works and should not stay so. There are none without Options.Host.
	Warnings Faults
	origins  map[string]Origin
	getenv   func(string) string
}

// loader is one Load under way.
type loader struct {
	file    *File
	name    string
	env     map[string]string
	origins map[string]Origin
	faults  Faults
}

// Load reads a configuration. Its error is an error of reading the file, or Faults with everything that is wrong.
func Load(o Options) (*Config, error) {
	text := o.Text
	if o.Path != "" && text == nil {
		var err error
		if text, err = files.Read(o.Path, maxFile); err != nil {
			return nil, err
		}
	}
	return load(o, text)
}

// load is Load with the text of the file in hand.
func load(o Options, text []byte) (*Config, error) {
	l := &loader{file: newFile(), name: o.Path, env: environment(o.Environ), origins: map[string]Origin{}}
	if o.Path != "" {
		if l.readYAML(text); l.unreadable() {
			return nil, l.faults // nothing of it can be judged
		}
	} else {
		l.readPlainEnvironment()
	}
	l.readEnvironment()
	for _, f := range o.Flags {
		l.override(f)
	}
	l.complete()
	l.check()
	c := &Config{File: *l.file, Path: o.Path, Text: text, origins: l.origins, getenv: l.getenv}
	if o.Host {
		l.checkHost(c)
	}
	if len(l.faults) > 0 {
		l.sortFaults()
		return nil, l.faults
	}
	return c, nil
}

// unreadable reports whether the file as a whole has a fault.
func (l *loader) unreadable() bool {
	return slices.ContainsFunc(l.faults, func(f Fault) bool { return f.Key == "" && f.Origin.File != "" })
}

func environment(environ []string) map[string]string {
	env := map[string]string{}
	for _, pair := range environ {
		if name, value, ok := strings.Cut(pair, "="); ok && value != "" {
			env[name] = value
		}
	}
	return env
}

func (l *loader) getenv(name string) string { return l.env[name] }

func (l *loader) fault(o Origin, key, format string, args ...any) {
	l.faults = append(l.faults, faultf(o, key, format, args...))
}

// faultAt reports a fault of a key, at its place or, if it was not given, at that of what holds it.
func (l *loader) faultAt(key, format string, args ...any) {
	l.fault(l.origin(key), key, format, args...)
}

func (l *loader) origin(key string) Origin { return originOf(l.origins, key, l.name) }

func originOf(origins map[string]Origin, key, file string) Origin {
	for key != "" {
		if o, ok := origins[key]; ok {
			return o
		}
		key = key[:max(strings.LastIndexAny(key, ".["), 0)]
	}
	return Origin{File: file}
}

// isBad reports whether a fault of one of the keys, or below, is known: then nothing can be said of how they go together.
func (l *loader) isBad(keys ...string) bool {
	return slices.ContainsFunc(l.faults, func(f Fault) bool {
		return slices.ContainsFunc(keys, func(key string) bool {
			rest, ok := strings.CutPrefix(f.Key, key)
			return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
		})
	})
}

// hasFault reports whether a fault of the key itself is known.
func (l *loader) hasFault(key string) bool {
	return slices.ContainsFunc(l.faults, func(f Fault) bool { return f.Key == key })
}

// sortFaults orders by line; those without one keep their place at the end.
func (l *loader) sortFaults() {
	slices.SortStableFunc(l.faults, func(a, b Fault) int {
		line := func(f Fault) int {
			if f.Origin.Line == 0 {
				return 1 << 30
			}
			return f.Origin.Line
		}
		if d := line(a) - line(b); d != 0 {
			return d
		}
		return a.Origin.Column - b.Origin.Column
	})
}

// set gives a key its value, or reports why not.
func (l *loader) set(k key, path string, values []string, o Origin) {
	if k.scalar.kind.isList() {
		k.scalar.clear()
		maps.DeleteFunc(l.origins, func(p string, _ Origin) bool { return strings.HasPrefix(p, path+"[") })
		for i, v := range values {
			l.setItem(k, index(path, i), v, o)
		}
		l.origins[path] = o
		return
	}
	l.setItem(k, path, values[0], o)
}

func (l *loader) setItem(k key, path, v string, o Origin) {
	l.origins[path] = o
	if looksSecret(v) && k.secret == nil {
		l.fault(o, path, "looks like a secret; secrets are not written here, but named: with …_env, …_file or …_credential")
		return
	} else if looksSecret(v) {
		_, suffix := cutSecretSuffix(path)
		l.fault(o, path, "looks like the secret itself; give %s", secretNames[suffix])
		return
	}
	err := k.scalar.set(v)
	switch {
	case err == nil:
	case strings.HasPrefix(err.Error(), "is empty"):
		l.fault(o, path, "%v", err)
	case k.mayBeSecret() || strings.Contains(v, "@"): // user:password@host
		l.fault(o, path, "the value %v", err)
	default:
		l.fault(o, path, "%s %v", quote(v), err)
	}
}

// mayBeSecret says of which keys people write the secret itself by mistake.
func (k key) mayBeSecret() bool {
	return strings.HasSuffix(k.name, "_env") || strings.HasSuffix(k.name, "_credential") || k.hidden || k.name == "url"
}

// override applies a flag.
func (l *loader) override(f Override) {
	found := false
	if name, n := l.ambiguous(f.Key); name != "" {
		l.fault(Origin{Flag: f.Flag}, "", "there are %d %s, and a flag cannot say which it means; say it in the file", n, name)
		return
	}
	l.grow(f.Key)
	walk(l.file.keys(), "", func(path string, k key) {
		if path == f.Key {
			found = true
			l.replace(k, path, f.Values, Origin{Flag: f.Flag})
		}
	})
	if !found {
		panic("config: " + f.Flag + " sets " + f.Key + ", which does not exist")
	}
}

// ambiguous names the list that a flag means the only item of, and the number of its items, when there are several.
func (l *loader) ambiguous(path string) (string, int) {
	name, _, _ := strings.Cut(path, "[0]")
	for _, k := range l.file.keys() {
		if k.name == name && k.list != nil && k.list.len() > 1 {
			return name, k.list.len()
		}
	}
	return "", 0
}

// replace sets a key over what a lower layer gave, and takes the place of the other ways to name the same secret.
func (l *loader) replace(k key, path string, values []string, o Origin) {
	if k.secret != nil {
		base, own := cutSecretSuffix(path)
		for _, suffix := range secretSuffixes {
			if suffix != own && l.origins[base+suffix].layer() < o.layer() {
				*k.secret.field(suffix) = ""
				delete(l.origins, base+suffix)
			}
		}
	}
	l.set(k, path, values, o)
}

// Fault is a fault of a key of c that showed when its value was used.
func (c *Config) Fault(key, format string, args ...any) Fault {
	return faultf(originOf(c.origins, key, c.Path), key, format, args...)
}
