package command

import "strings"

// liveHelp is narrow enough for every terminal the view is shown on, and can be scrolled.
const liveHelp = `KEYS
q         quit
tab, 1-4  overview, pools, phases, sessions
p, space  hold the picture, and go on
w         latencies of the last minute, or since start
s, S      next, last way to sort sessions: traffic, age,
          quiet, first audio, turns, held, added
r         the other way round
/         only sessions with these words in their id,
          state, model, target, pool, client, key, request
esc       all sessions again
arrows    scroll; also page up, page down, home, end

FIGURES
ready     client's connection to its answer
first …   end of the user's turn to first text or audio
turn      end of the user's turn to the end of the answer
added     what rtd takes, from readable to written
jitter    gaps of audio against their median
POOL      hit: warm, miss: dialled, bypass: not poolable
NOW       per second since the look before; memory now
up, down  client to upstream, upstream to client
QUIET     since the last frame of either side
AUDIO     first audio of the last answer
HELD      bytes waiting for a slow reader
ADDED     longest time that rtd held something up`

func (l *live) helpLines(width, room int) []string {
	lines := strings.Split(liveHelp, "\n")
	l.scroll = min(l.scroll, max(0, len(lines)-room))
	lines = lines[l.scroll:]
	for i, line := range lines {
		lines[i] = clip(line, width)
		if line != "" && line == strings.ToUpper(line) {
			lines[i] = l.theme.heading.Render(lines[i])
		}
	}
	return lines
}
