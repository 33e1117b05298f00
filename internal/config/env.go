package config

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// envPrefix begins the variables that set a key.
const envPrefix = "RTD_"

// ConfigVariable names the configuration file.
const ConfigVariable = "RTD_CONFIG"

// EnvName is the environment variable of a key: upstreams[0].url is RTD_UPSTREAMS_0_URL.
func envName(path string, k key) string {
	if k.env != "" {
		return k.env
	}
	return envOf(path)
}

func envOf(path string) string { return envPrefix + strings.ToUpper(pathToEnv.Replace(path)) }

var pathToEnv = strings.NewReplacer(".", "_", "[", "_", "]", "")

// readEnvironment applies the variables of the keys over the file. Variables can add items to a list, the next one each.
func (l *loader) readEnvironment() {
	l.growFromEnvironment(l.file.keys(), "")
	var known []string
	walk(l.file.keys(), "", func(path string, k key) {
		name := envName(path, k)
		known = append(known, name)
		v, ok := l.env[name]
		if !ok {
			return
		}
		values := []string{v}
		if k.scalar.kind.isList() {
			values = strings.Split(v, ",")
			for i := range values {
				values[i] = strings.TrimSpace(values[i])
			}
		}
		l.replace(k, path, values, Origin{Variable: name})
	})
	l.misspelt(known)
}

// growFromEnvironment makes the items that variables are for.
func (l *loader) growFromEnvironment(keys []key, prefix string) {
	for _, k := range keys {
		path := join(prefix, k.name)
		if k.list == nil {
			l.growFromEnvironment(k.keys, path)
			continue
		}
		for l.hasEnv(envOf(index(path, k.list.len())) + "_") {
			i := k.list.len()
			k.list.add()
			l.origins[index(path, i)] = Origin{Variable: envOf(index(path, i)) + "_…"}
		}
		l.gap(path, k.list.len())
	}
}

func (l *loader) hasEnv(prefix string) bool {
	for name := range l.env {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// gap reports variables of items that there are none before.
func (l *loader) gap(path string, n int) {
	for _, name := range slices.Sorted(maps.Keys(l.env)) {
		rest, ok := strings.CutPrefix(name, envOf(path)+"_")
		number, _, more := strings.Cut(rest, "_")
		i, err := strconv.ParseUint(number, 10, 16)
		if ok && more && err == nil && int(i) >= n {
			l.fault(Origin{Variable: name}, path, "there is no item %d; the next to add is %s_%d_…", i, envOf(path), n)
		}
	}
}

// misspelt reports variables that are nearly one of ours. Others that begin alike are left alone: a cluster makes
// RTD_SERVICE_HOST for a service of the name.
func (l *loader) misspelt(known []string) {
	known = append(known, ConfigVariable)
	for _, name := range slices.Sorted(maps.Keys(l.env)) {
		if !strings.HasPrefix(name, envPrefix) || slices.Contains(known, name) || l.reported(name) {
			continue
		}
		for _, k := range known {
			if distance(name, k) <= 2 {
				l.fault(Origin{Variable: name}, "", "no key has this variable; did you mean %s?", k)
				break
			}
		}
	}
}

// reported says whether a variable has a fault already.
func (l *loader) reported(name string) bool {
	return slices.ContainsFunc(l.faults, func(f Fault) bool { return f.Origin.Variable == name })
}

// grow makes the items of a list that a path leads through.
func (l *loader) grow(path string) {
	var find func(keys []key, prefix string)
	find = func(keys []key, prefix string) {
		for _, k := range keys {
			own := join(prefix, k.name)
			rest, ok := strings.CutPrefix(path, own+"[")
			if k.list == nil || !ok {
				find(k.keys, own)
				continue
			}
			number, _, _ := strings.Cut(rest, "]")
			for i, err := strconv.Atoi(number); err == nil && k.list.len() <= i; {
				k.list.add()
			}
		}
	}
	find(l.file.keys(), "")
}
