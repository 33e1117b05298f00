package config

import "slices"

// nearest returns the candidate that v most likely was meant to be, "" when none is near.
func nearest(v string, candidates []string) string {
	best, least := "", max(1, min(3, len(v)/2))+1
	for _, c := range candidates {
		if d := distance(v, c); d < least {
			best, least = c, d
		}
	}
	return best
}

// didYouMean is a clause for the end of a message, empty when nothing is near.
func didYouMean(v string, candidates []string) string {
	if near := nearest(v, candidates); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}

// distance counts the letters to insert, drop, change or swap with a neighbour to get from a to b. Long words are far.
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	var before []int
	last := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			change := last[j]
			if a[i] != b[j] {
				change++
			}
			row[j+1] = min(change, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}

func names(keys []key) []string {
	list := make([]string, len(keys))
	for i, k := range keys {
		list[i] = k.name
	}
	return list
}

// homeOf finds where in the whole tree a key of that name belongs, "" when nowhere.
func homeOf(name string, keys []key, prefix string) string {
	if prefix != "" && slices.Contains(names(keys), name) {
		return prefix
	}
	for _, k := range keys {
		path := join(prefix, k.name)
		sub := k.keys
		if k.list != nil {
			path, sub = path+"[]", k.list.sample()
		}
		if home := homeOf(name, sub, path); home != "" {
			return home
		}
	}
	return ""
}
