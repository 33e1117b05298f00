package unixsock

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// States for Notify, as in sd_notify(3).
const (
	Ready    = "READY=1"
	Stopping = "STOPPING=1"
	Watchdog = "WATCHDOG=1"
)

// Status is the state that `systemctl status` shows as one line.
func Status(text string) string {
	return "STATUS=" + strings.Map(func(r rune) rune {
		if r == '\n' || r == '\r' {
			return ' ' // a second line would be read as another state
		}
		return r
	}, text)
}

// Reloading is the state between SIGHUP and the next Ready, with the time stamp that
// Type=notify-reload asks for.
func Reloading() string {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return "RELOADING=1"
	}
	return "RELOADING=1\nMONOTONIC_USEC=" + strconv.FormatInt(now.Nano()/1000, 10)
}

// notifyTimeout bounds the wait for a manager that does not read: its queue is short.
const notifyTimeout = time.Second

// Notify sends states to the service manager in one message. Without a manager
// (NOTIFY_SOCKET unset) it does nothing. It fails after a second rather than wait for
// a manager that does not read.
func Notify(states ...string) error {
	name := os.Getenv("NOTIFY_SOCKET")
	if name == "" {
		return nil
	}
	if name[0] != '/' && name[0] != '@' { // net maps @ to the abstract namespace
		return fmt.Errorf("notify the service manager: NOTIFY_SOCKET %q is neither a path nor abstract", name)
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Net: "unixgram", Name: name})
	if err != nil {
		return fmt.Errorf("notify the service manager: %w", err)
	}
	defer conn.Close()
	if err := conn.SetWriteDeadline(time.Now().Add(notifyTimeout)); err != nil {
		return fmt.Errorf("notify the service manager: %w", err)
	}
	if _, err := conn.Write([]byte(strings.Join(states, "\n"))); err != nil {
		return fmt.Errorf("notify the service manager: %w", err)
	}
	return nil
}

// WatchdogInterval is how often to send Watchdog: half of what the service manager
// waits for it (WATCHDOG_USEC). 0: it does not wait, or not for this process.
func WatchdogInterval() time.Duration {
	if pid := os.Getenv("WATCHDOG_PID"); pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return 0
	}
	usec, err := strconv.ParseInt(os.Getenv("WATCHDOG_USEC"), 10, 64)
	if err != nil || usec <= 0 || usec > int64(1<<62)/int64(time.Microsecond) {
		return 0
	}
	return time.Duration(usec) * time.Microsecond / 2
}

// Inheritance is a listener opened before this process began, by a .socket unit.
type Inheritance struct {
	Name     string // FileDescriptorName= of the unit; "unknown" when not given
	Listener net.Listener
}

// ErrBadInheritance means that the environment promises descriptors that are not
// there, or that are no listeners.
var ErrBadInheritance = errors.New("inherited sockets")

const firstFD = 3 // SD_LISTEN_FDS_START

// Inherited returns the listeners passed by socket activation, see sd_listen_fds(3),
// in order; none when they are meant for another process. It unsets the variables, so
// that a child of this process is not misled: call it once. Closing such a listener
// leaves its path in place, which belongs to the service manager.
func Inherited() ([]Inheritance, error) {
	pid, count, names := os.Getenv("LISTEN_PID"), os.Getenv("LISTEN_FDS"), os.Getenv("LISTEN_FDNAMES")
	for _, key := range []string{"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"} {
		if err := os.Unsetenv(key); err != nil {
			return nil, err
		}
	}
	if pid != strconv.Itoa(os.Getpid()) {
		return nil, nil
	}
	n, err := strconv.Atoi(count)
	if err != nil || n < 0 {
		return nil, fmt.Errorf("%w: LISTEN_FDS=%q is no count", ErrBadInheritance, count)
	}
	return inherit(n, names)
}

func inherit(n int, names string) (all []Inheritance, err error) {
	defer func() {
		if err != nil {
			for _, one := range all {
				one.Listener.Close()
			}
			all = nil
		}
	}()
	labels := strings.Split(names, ":")
	if names != "" && len(labels) != n {
		return nil, fmt.Errorf("%w: LISTEN_FDNAMES=%q names %d of %d", ErrBadInheritance, names, len(labels), n)
	}
	for i := range n {
		name := "unknown"
		if names != "" {
			name = labels[i]
		}
		l, err := inheritOne(firstFD+i, name)
		if err != nil {
			return all, fmt.Errorf("%w: descriptor %d (%s): %w", ErrBadInheritance, firstFD+i, name, err)
		}
		all = append(all, Inheritance{Name: name, Listener: l})
	}
	return all, nil
}

func inheritOne(fd int, name string) (net.Listener, error) {
	syscall.CloseOnExec(fd)
	file := os.NewFile(uintptr(fd), name)
	defer file.Close() // FileListener works on a duplicate
	return net.FileListener(file)
}
