package config

import "strconv"

// key describes one key of the file, bound to the field it fills. It has a scalar, keys of its own, or a list.
type key struct {
	name     string
	doc      string // for people: the reference page, the schema
	def      string // default, as text; "": none
	defDoc   string // what the default is where that is no constant
	env      string // environment variable, where not made of the path
	fixed    bool   // holds until the next start
	required bool
	hidden   bool    // its value is not shown
	secret   *Secret // of which it is one way to name it

	scalar *scalar
	keys   []key
	list   *list
}

// list is a sequence of mappings.
type list struct {
	len  func() int
	add  func() // one more item, with its defaults
	item func(i int) []key
	// sample is an item, with its defaults, that is in no list.
	sample func() []key
}

// newList binds a list to items.
func newList[T any](items *[]T, keys func(*T) []key) *list {
	l := &list{
		len:  func() int { return len(*items) },
		item: func(i int) []key { return keys(&(*items)[i]) },
	}
	l.sample = func() []key {
		var item T
		sample := keys(&item)
		setDefaults(sample)
		return sample
	}
	l.add = func() {
		var item T
		*items = append(*items, item)
		setDefaults(l.item(len(*items) - 1))
	}
	return l
}

// setDefaults fills what has a default.
func setDefaults(keys []key) {
	for _, k := range keys {
		if k.scalar != nil && k.def != "" {
			if err := k.scalar.set(k.def); err != nil {
				panic("config: default of " + k.name + ": " + err.Error())
			}
		}
		setDefaults(k.keys)
	}
}

// newFile is a configuration of which nothing was given.
func newFile() *File {
	f := &File{}
	setDefaults(f.keys())
	return f
}

// walk visits every scalar that there is, in order, with its path.
func walk(keys []key, prefix string, visit func(path string, k key)) {
	for _, k := range keys {
		path := join(prefix, k.name)
		switch {
		case k.scalar != nil:
			visit(path, k)
		case k.list != nil:
			for i := range k.list.len() {
				walk(k.list.item(i), index(path, i), visit)
			}
		default:
			walk(k.keys, path, visit)
		}
	}
}

func join(prefix, name string) string {
	if prefix == "" {
		return name
	}
	return prefix + "." + name
}

func index(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }
