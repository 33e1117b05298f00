# Every target but `protos`, `lint`, `check` and `e2e` needs Go alone. The first three build pinned tools (tools/go.mod)
# once, into .tools/; `e2e` needs npm, and for one of its clients Python 3.11 with venv.
GO ?= go
# How long each fuzz target runs.
FUZZTIME ?= 10s

# Keyed by what decides the binaries, so a changed pin or Go release builds anew and nothing else does.
TOOLS = .tools/$(shell cksum < tools/go.sum | cut -d' ' -f1)-$(shell $(GO) env GOVERSION)
LINT = $(TOOLS)/golangci-lint
BUF = $(TOOLS)/buf
# Generated files are compared here, outside the tree.
REGENERATED = .tools/regenerated
THIRD_PARTY = THIRD_PARTY.md

.PHONY: build test race fuzz bench bench-peers demo lint vulns licences protos \
	check check-format check-vet check-tidy check-protos check-licences check-tools e2e clean

build: ## Both programs, into bin/.
	$(GO) build -trimpath -o bin/ ./cmd/rtd ./cmd/rtctl

test: ## All tests that need nothing but Go.
	$(GO) test ./...

race: ## The same under the race detector (needs a C compiler).
	$(GO) test -race ./...

fuzz: ## Every fuzz target in turn, for FUZZTIME each; the input of a finding is kept under testdata/fuzz.
	GO="$(GO)" tools/fuzz.sh $(FUZZTIME)

bench: ## Every benchmark, with its allocations.
	$(GO) test -run '^$$' -bench . -benchmem ./...

bench-peers: build ## The same loads through rtd, HAProxy and nginx (Debian: haproxy, nginx-light).
	bin/rtctl bench peers

demo: build ## Calls to a scripted provider: direct, through a warm pool, and with the pool off.
	bin/rtctl bench connect --self -n 300 -c 30

lint: $(LINT) $(BUF)
	$(LINT) run ./...
	$(BUF) lint

vulns: ## Known vulnerabilities that the code reaches; says so where the database does not answer.
	$(GO) -C tools run ./vulns $(CURDIR)

licences: ## The list of modules and licences, after a change to what the programs import.
	$(GO) -C tools run ./licences -write $(CURDIR) $(CURDIR)/$(THIRD_PARTY)

protos: $(BUF) ## Generated code, after a change to a .proto file.
	$(BUF) generate

check: check-format check-vet lint check-protos check-tidy check-licences check-tools race ## All that a change must pass.

check-format:
	@files=$$(git ls-files -co --exclude-standard -- '*.go' | xargs ls 2>/dev/null | xargs $$($(GO) env GOROOT)/bin/gofmt -l); \
	if [ -n "$$files" ]; then echo "gofmt -w would change:"; echo "$$files"; exit 1; fi

check-vet:
	$(GO) vet ./...
	GOOS=darwin $(GO) vet ./...

check-tidy:
	$(GO) mod tidy -diff

check-licences:
	$(GO) -C tools run ./licences $(CURDIR) $(CURDIR)/$(THIRD_PARTY)

# The programs under tools/ are a module of their own, which ./... does not enter.
check-tools: $(LINT)
	$(GO) -C tools vet ./...
	cd tools && $(CURDIR)/$(LINT) run ./...
	$(GO) -C tools test ./...

check-protos: $(BUF)
	@rm -rf $(REGENERATED)
	$(BUF) generate -o $(REGENERATED)
	@for file in $$(cd $(REGENERATED) && find * -name '*.pb.go') $$(git ls-files '*.pb.go'); do \
		cmp "$(REGENERATED)/$$file" "$$file" || { echo "$$file is stale: run make protos"; exit 1; }; done

e2e: e2e/node_modules/.package-lock.json e2e/.venv/.installed ## Real SDK clients through real processes.
	RTD_E2E=1 $(GO) test -count=1 -v ./e2e/

e2e/node_modules/.package-lock.json: e2e/package-lock.json
	npm ci --prefix e2e

# A machine without Python or its registry still tests the other clients, and says so.
e2e/.venv/.installed: e2e/requirements.txt
	@if python3 -m venv --clear e2e/.venv && e2e/.venv/bin/pip install --disable-pip-version-check -q -r e2e/requirements.txt; \
	then touch $@; \
	else rm -rf e2e/.venv; echo "SKIPPED: openai for Python cannot be installed here, so its tests are skipped"; fi

clean:
	rm -rf bin .tools e2e/node_modules e2e/.venv

$(LINT):
	$(GO) -C tools build -o $(CURDIR)/$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

$(BUF):
	$(GO) -C tools build -o $(CURDIR)/$@ github.com/bufbuild/buf/cmd/buf
