#!/bin/sh
# fuzz.sh DURATION runs every fuzz target of the tree one after another for DURATION each (Go's notation). It goes on
# behind a finding, so that one does not hide the next, names all of them at the end and then exits with 1. Go writes the
# input of a finding to testdata/fuzz beside the test: committed with the fix, every later `go test` runs it.
set -u
duration=${1:?usage: tools/fuzz.sh DURATION}
go=${GO:-go}
cd "$(dirname "$0")/.." || exit 1

targets=$(git ls-files -co --exclude-standard -- '*_test.go' | xargs grep -Ho '^func Fuzz[A-Za-z0-9_]*' 2>/dev/null | sed 's/:func /:/' | sort)
if [ -z "$targets" ]; then
	echo "no fuzz target found in the tree" >&2
	exit 1
fi

ran=0
found=
for target in $targets; do
	package=./$(dirname "${target%:*}")
	name=${target##*:}
	echo "---- $name in $package"
	"$go" test -run '^$' -fuzz "^$name\$" -fuzztime "$duration" -fuzzminimizetime 5s "$package" || found="$found $package:$name"
	ran=$((ran + 1))
done

if [ -n "$found" ]; then
	echo "FOUND by fuzzing, inputs under testdata/fuzz of the package:" >&2
	for target in $found; do
		echo "  ${target#*:} in ${target%%:*}" >&2
	done
	exit 1
fi
echo "$ran fuzz targets ran for $duration each and found nothing"
