package command

import "strings"

const liveHelp = `q        quit                    p, space  hold the picture, and go on
tab, 1-4 overview, pools,        w         latencies of the last minute,
         phases, sessions                  or since the start
s, S     sort by traffic, age,   /         only sessions with these words:
         quiet, first audio,               id, state, target, pool, client,
         turns, held, added                key, request; esc: all again
r        the other way round     arrows    scroll; also page, home, end

ready    from the client's connection to its answer
first audio, turn, created   from the end of the user's turn
added    what rtd takes, from readable to written
jitter   gaps of audio against their median, in and out of rtd
POOL     hit: warm; miss: waited for a dial; bypass: not poolable
NOW      since the look before; memory: at present
UP, DOWN client to upstream, upstream to client
any key goes back`

func helpLines(width int) []string {
	lines := strings.Split(liveHelp, "\n")
	for i, line := range lines {
		lines[i] = clip(line, width)
	}
	return lines
}
