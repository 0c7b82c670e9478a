# Builds the native core without Node.js, its tests and its fuzz targets, under address and
# undefined-behaviour sanitizers. An object is made again when its source, a header that it includes,
# or this file has changed.
#
#   make -s -j2 -f scripts/native.mk tests      the test program, and the guardian it starts
#   make -s -j2 -f scripts/native.mk fuzz-fill  a fuzz target: test/fuzz/fuzz_fill.cc; clang++ only
#   make -s -j2 -f scripts/native.mk tidy       what scripts/tidy-native needs
#   make -s -f scripts/native.mk faults         the library that test/faults preloads into processes
#   make -s -f scripts/native.mk pattern        the addon of test/bench/streams/pattern-addon.ts
#   make -s -f scripts/native.mk directory      prints where programs and objects are
#
# COMPILER=g++ builds with that compiler; without it, clang++ does, if it is installed. ARCH=arm64
# builds for that processor, with the one sanitizer that works in an emulator. VARIANT=thread builds the
# tests under the thread sanitizer, VARIANT=coverage under none, with the counts that llvm-cov reads.
SHELL := /bin/bash
ARCH ?= host

CXXFLAGS := -std=c++17 -g -O1 -fno-exceptions -fno-omit-frame-pointer -Wall -Wextra -Werror -I. -pthread \
  -D_FILE_OFFSET_BITS=64 -fno-sanitize-recover=undefined
LDFLAGS :=
# In a variable, because a comma ends an argument of a function.
SANITIZERS := address,undefined

ifeq ($(ARCH),arm64)
  COMPILER := aarch64-linux-gnu-g++
  CXXFLAGS += -fsanitize=undefined
  LDFLAGS += -static
else
  COMPILER ?= $(if $(shell command -v clang++),clang++,g++)
  CXXFLAGS += $(if $(filter coverage,$(VARIANT)),-fprofile-instr-generate -fcoverage-mapping,\
    -fsanitize=$(or $(VARIANT),$(SANITIZERS)))
endif
ifeq ($(COMPILER),clang++)
  LDFLAGS += $(if $(shell command -v ld.lld),-fuse-ld=lld)
  # The depth of the stack depends on where it begins, which differs from run to run.
  # It is written by all threads at once, which the thread sanitizer takes for a race.
  FUZZ_FLAGS := $(if $(VARIANT),,-fsanitize=fuzzer-no-link -fno-sanitize-coverage=stack-depth)
  FUZZ_LINK := -fsanitize=fuzzer
else
  # g++ takes moved optionals for uninitialized ones when sanitizers are on.
  CXXFLAGS += -Wno-maybe-uninitialized
endif

BUILD := .native-build/$(COMPILER)
OUT := $(BUILD)$(VARIANT:%=-%)
GTEST := /usr/src/googletest/googletest

CORE := $(wildcard native/base/*.cc native/scan/*.cc native/thin/*.cc native/device/*.cc)
# These tests need nothing of the kernel that an emulator of the processor does not pass on.
PORTABLE_TESTS := $(wildcard test/native/fill_test.cc test/native/parsers_test.cc test/native/thin_*_test.cc)
TESTS := $(if $(filter arm64,$(ARCH)),$(PORTABLE_TESTS),$(wildcard test/native/*_test.cc))
TEST_SUPPORT := $(filter-out %_test.cc,$(wildcard test/native/*.cc))
GUARDIAN := $(wildcard native/guardian/*.cc)
FUZZ_TARGETS := $(patsubst test/fuzz/fuzz_%.cc,%,$(wildcard test/fuzz/fuzz_*.cc))
# What fuzz targets use of the tests: the parts that need no GoogleTest.
FUZZ_SUPPORT := $(filter-out %/pool.cc %/random_seed.cc,$(TEST_SUPPORT))

# What tests and fuzz targets share is compiled once, with the coverage that libFuzzer needs. Only
# libFuzzer reads the coverage: the tests run with what the sanitizers' runtime has in its place.
objects = $(patsubst %.cc,$(OUT)/$(1)/%.o,$(2))
FUZZ_LIBRARY := $(call objects,covered,$(CORE) $(FUZZ_SUPPORT))
TEST_OBJECTS := $(FUZZ_LIBRARY) $(call objects,plain,$(TESTS) $(filter-out $(FUZZ_SUPPORT),$(TEST_SUPPORT))) \
  $(BUILD)/gtest-all.o $(BUILD)/gtest_main.o
GUARDIAN_OBJECTS := $(call objects,plain,$(GUARDIAN))

.PHONY: tests faults pattern tidy directory command FORCE
.DELETE_ON_ERROR:
.SECONDARY:

tests: $(OUT)/tests $(OUT)/blockdelta-guardian

# Test files that run beside each other may make it at once: each gives it its name when it is whole.
faults: .native-build/faults.so
.native-build/faults.so: test/faults/preload/faults.c scripts/native.mk
	@mkdir -p $(@D)
	gcc -std=gnu17 -O1 -g -Wall -Wextra -Werror -fPIC -shared -o $@.$$$$ $< && mv $@.$$$$ $@

# As fast as the addon that it stands in for, so without sanitizers. The headers of Node.js are beside its program, or where
# node-gyp has downloaded them to.
NODE = $(shell command -v node)
NODE_HEADERS = -I$(dir $(realpath $(NODE)))../include/node -I$(HOME)/.cache/node-gyp/$(shell $(NODE) -p process.versions.node)/include/node
PATTERN := test/bench/streams/pattern_addon.cc test/native/pattern_source.cc native/scan/fill.cc native/scan/message_writer.cc \
  native/base/status.cc
pattern: .native-build/pattern.node
.native-build/pattern.node: $(PATTERN) test/native/pattern_source.h $(wildcard native/base/*.h native/scan/*.h) scripts/native.mk
	@mkdir -p $(@D)
	g++ -std=c++17 -O2 -fno-exceptions -fvisibility=hidden -Wall -Wextra -Werror -fPIC -shared -I. $(NODE_HEADERS) \
	  -o $@.$$$$ $(PATTERN) && mv $@.$$$$ $@

directory:
	@echo $(OUT)

$(OUT)/plain/%.o: %.cc scripts/native.mk
	@mkdir -p $(@D)
	$(COMPILER) $(CXXFLAGS) -MMD -MP -c -o $@ $<

$(OUT)/covered/%.o: %.cc scripts/native.mk
	@mkdir -p $(@D)
	$(COMPILER) $(CXXFLAGS) $(FUZZ_FLAGS) -MMD -MP -c -o $@ $<

# GoogleTest is not what is tested: no sanitizers, no optimization, which takes 2 s instead of 10.
$(BUILD)/gtest%.o: $(GTEST)/src/gtest%.cc scripts/native.mk
	@mkdir -p $(@D)
	$(COMPILER) -std=c++17 -fno-exceptions -fno-omit-frame-pointer -pthread -I$(GTEST) -c -o $@ $<

# A list of objects changes when a source comes or goes, and has what was made of it linked again.
$(OUT)/%.list: FORCE
	@mkdir -p $(@D)
	@printf '%s\n' $(LIST) | cmp -s - $@ || printf '%s\n' $(LIST) >$@

$(OUT)/tests.list: LIST = $(TEST_OBJECTS)
$(OUT)/tests: $(TEST_OBJECTS) $(OUT)/tests.list
	$(COMPILER) $(CXXFLAGS) $(LDFLAGS) -o $@ $(TEST_OBJECTS)

$(OUT)/blockdelta-guardian: $(GUARDIAN_OBJECTS)
	$(COMPILER) $(CXXFLAGS) $(LDFLAGS) -o $@ $^

# A library: each target links what it uses of it.
$(OUT)/libfuzzed.list: LIST = $(FUZZ_LIBRARY)
$(OUT)/libfuzzed.a: $(FUZZ_LIBRARY) $(OUT)/libfuzzed.list
	@rm -f $@
	ar rcs $@ $(FUZZ_LIBRARY)

.PHONY: $(FUZZ_TARGETS:%=fuzz-%)
$(FUZZ_TARGETS:%=fuzz-%): fuzz-%: $(OUT)/fuzz_%
$(OUT)/fuzz_%: $(OUT)/covered/test/fuzz/fuzz_%.o $(OUT)/libfuzzed.a
	$(COMPILER) $(CXXFLAGS) $(LDFLAGS) $(FUZZ_LINK) -o $@ $^

# scripts/tidy-native has written compile_commands.json. Headers of Node.js count as generated, since only
# that file knows where they are.
TIDIED := $(patsubst %.cc,$(OUT)/tidy/%.ok,native/addon.cc $(wildcard native/binding/*.cc native/confine/*.cc) \
  $(CORE) $(GUARDIAN))
tidy: $(TIDIED)
$(OUT)/tidy/%.ok: %.cc .clang-tidy scripts/native.mk
	@mkdir -p $(@D)
	@clang-tidy --quiet $< 2>/dev/null
	@$(COMPILER) $(CXXFLAGS) -MM -MG -MP -MT $@ -MF $(@:.ok=.d) $<
	@touch $@

# What scripts/compile-commands.mjs asks for.
command:
	@echo $(COMPILER) $(CXXFLAGS)

# Not the lists of headers that another make writes meanwhile.
ifeq ($(MAKECMDGOALS),tidy)
-include $(TIDIED:.ok=.d)
else
-include $(patsubst %.o,%.d,$(filter $(OUT)/plain/% $(OUT)/covered/%,$(TEST_OBJECTS) $(GUARDIAN_OBJECTS) $(FUZZ_LIBRARY))) \
  $(FUZZ_TARGETS:%=$(OUT)/covered/test/fuzz/fuzz_%.d)
endif
