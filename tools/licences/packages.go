package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// programs are what a release consists of, platforms what it is built for.
var (
	programs  = []string{"rtctl", "rtd"}
	platforms = []string{"darwin/amd64", "darwin/arm64", "linux/amd64", "linux/arm64"}
)

// built is one module and where it went.
type built struct {
	path, version string
	programs      []string // sorted
	files         []file   // sorted by name
}

// file is a legal text beside the code; licences is empty for those that grant none.
type file struct {
	name     string // slash-separated, from the module's root
	licences []string
}

// listed is what `go list` says of a package.
type listed struct {
	ImportPath, Dir string
	Standard        bool
	Module          *struct {
		Path, Version, Dir string
		Main               bool
		Replace            *struct{ Path, Version string }
	}
}

// modules returns all modules built into the programs on any platform, the standard library apart, sorted by path.
func modules(root string) ([]built, error) {
	found := map[string]*built{}
	for _, program := range programs {
		for _, platform := range platforms {
			packages, err := dependencies(root, "./cmd/"+program, platform)
			if err != nil {
				return nil, err
			}
			for _, p := range packages {
				if p.Standard || p.Module == nil || p.Module.Main {
					continue
				}
				if err := add(found, program, p); err != nil {
					return nil, err
				}
			}
		}
	}
	var all []built
	for _, module := range found {
		slices.SortFunc(module.files, func(a, b file) int { return cmp.Compare(a.name, b.name) })
		all = append(all, *module)
	}
	slices.SortFunc(all, func(a, b built) int { return cmp.Compare(a.path, b.path) })
	return all, nil
}

func dependencies(root, program, platform string) ([]listed, error) {
	system, machine, _ := strings.Cut(platform, "/")
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Dir,Standard,Module", program)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOOS="+system, "GOARCH="+machine, "CGO_ENABLED=0", "GOWORK=off")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list %s for %s: %w: %s", program, platform, err, bytes.TrimSpace(stderr.Bytes()))
	}
	var packages []listed
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list %s for %s: %w", program, platform, err)
		}
		packages = append(packages, p)
	}
}

// add notes that a program has a package in it, with the legal texts of every directory from the package up to the root
// of its module: code copied in from elsewhere keeps its own below the module's.
func add(found map[string]*built, program string, p listed) error {
	module := found[p.Module.Path]
	if module == nil {
		module = &built{path: p.Module.Path, version: p.Module.Version}
		if replace := p.Module.Replace; replace != nil {
			module.path, module.version = replace.Path, replace.Version
		}
		found[p.Module.Path] = module
	}
	if !slices.Contains(module.programs, program) {
		module.programs = append(module.programs, program)
	}
	inside, err := filepath.Rel(p.Module.Dir, p.Dir)
	if err != nil {
		return err
	}
	for dir := filepath.ToSlash(inside); ; dir = path.Dir(dir) {
		if err := module.texts(p.Module.Dir, dir); err != nil {
			return err
		}
		if dir == "." {
			return nil
		}
	}
}

func (b *built) texts(root, dir string) error {
	entries, err := os.ReadDir(filepath.Join(root, filepath.FromSlash(dir)))
	if err != nil {
		return err
	}
	for _, entry := range entries {
		name := path.Join(dir, entry.Name())
		if !entry.Type().IsRegular() || !isLegal(entry.Name()) || slices.ContainsFunc(b.files, func(f file) bool { return f.name == name }) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil {
			return err
		}
		b.files = append(b.files, file{name: name, licences: identify(entry.Name(), text)})
	}
	return nil
}
