package relay

import (
	"encoding/binary"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

func (p *poller) openFDs() (err error) {
	if p.ep, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return os.NewSyscallError("epoll_create1", err)
	}
	if p.wakeFD, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return os.NewSyscallError("eventfd", err)
	}
	if p.timer, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK); err != nil {
		return os.NewSyscallError("timerfd_create", err)
	}
	for _, e := range []unix.EpollEvent{{Events: unix.EPOLLIN, Fd: wakeEvent}, {Events: unix.EPOLLIN, Fd: timerEvent}} {
		fd := p.wakeFD
		if e.Fd == timerEvent {
			fd = p.timer
		}
		if err = unix.EpollCtl(p.ep, unix.EPOLL_CTL_ADD, fd, &e); err != nil {
			return os.NewSyscallError("epoll_ctl", err)
		}
	}
	if err = unix.SetNonblock(p.ep, true); err != nil {
		return os.NewSyscallError("fcntl", err)
	}
	p.epoll = os.NewFile(uintptr(p.ep), "epoll")
	return p.epoll.SetReadDeadline(time.Time{}) // fails if the runtime's poller cannot wait for it
}

func (p *poller) closeFDs() {
	if p.epoll != nil {
		_ = p.epoll.Close()
	} else if p.ep >= 0 {
		_ = unix.Close(p.ep)
	}
	for _, fd := range []int{p.wakeFD, p.timer} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

func (p *poller) arm(d time.Duration) {
	var t unix.ItimerSpec
	if d >= 0 {
		t.Value = unix.NsecToTimespec(max(1, d.Nanoseconds())) // 0 would disarm it
	}
	_ = unix.TimerfdSettime(p.timer, 0, &t, nil) // fails only for an invalid time
}

func (p *poller) wake() {
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	_, _ = unix.Write(p.wakeFD, one[:]) // fails only when it would wake already
}

func clearFD(fd int) {
	var b [8]byte
	_, _ = rawRead(fd, b[:])
}
