package pool

// Reconfigure puts the limits, times and functions of cfg in force; its Key, Name and Size are ignored. A size above the
// new MaxSize becomes that. Dials begun from now on are the new Dial's. Sessions keep the ages they were born with and
// whatever made them; Recycle replaces them. It fails, and changes nothing, as New does, and with ErrClosed.
func (p *Pool) Reconfigure(cfg Config) error {
	cfg.Key, cfg.Name, cfg.Size = p.key, p.name, 0
	cfg = cfg.withDefaults()
	if cfg.Dial == nil {
		return p.error("reconfigure", errNoDial)
	}
	if err := cfg.validate(); err != nil {
		return p.error("reconfigure", err)
	}
	p.mu.Lock()
	defer p.unlock()
	if p.closed {
		return p.error("reconfigure", ErrClosed)
	}
	p.cfg = cfg
	p.backoff.reconfigure(&cfg)
	p.resize(min(p.size, cfg.MaxSize))
	return nil
}

// reconfigure takes new bounds. A delay that runs goes on: what it was drawn from has been seen by the upstream.
func (b *backoff) reconfigure(c *Config) {
	if b.limit == b.most {
		b.limit = c.MaxDialing
	}
	b.min, b.max, b.auth, b.most = c.BackoffMin, c.BackoffMax, c.AuthBackoff, c.MaxDialing
	b.limit = min(b.limit, b.most)
}
