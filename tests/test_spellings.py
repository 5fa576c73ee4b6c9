"""One test for each way of writing CUDA code that was found in real repositories and fools a naive rewriter."""

from __future__ import annotations

import ast
import io
import tokenize

import pytest
from support import MAIN, change, changes, program

from xlaport.engine import SYNTAX_CODE
from xlaport.residue import KEPT_CODE

IMPORT = "import torch_xla.core.xla_model as xm\n"


def ported(text: str, files: dict[str, str] | None = None) -> str:
    """The migrated text, which parses, does not change a second time and has the comments and docstrings it had."""
    files = {**(files or {}), MAIN: text}
    first = changes(files)
    after = first[MAIN].after.text
    ast.parse(after)
    again = changes({name: item.after.text for name, item in first.items()})
    assert again[MAIN].after.text == after
    assert comments(after) <= comments(text)
    assert docstrings(after) == docstrings(text)
    return after


def comments(text: str) -> set[str]:
    tokens = tokenize.generate_tokens(io.StringIO(text, newline="").readline)
    return {token.string for token in tokens if token.type == tokenize.COMMENT}


def docstrings(text: str) -> list[str]:
    return [
        node.value.value for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    ]


SPELLINGS = {
    "CUDA in a docstring or a text": (
        '''
        """Trains on cuda: net.cuda()."""
        import torch
        def f(x):
            """Moves to 'cuda'."""
            "a text that says cuda"
            print("needs cuda", 'torch.cuda.is_available()')
            return x.cuda()
        ''',
        '''
        """Trains on cuda: net.cuda()."""
        import torch
        import torch_xla.core.xla_model as xm
        def f(x):
            """Moves to 'cuda'."""
            "a text that says cuda"
            print("needs cuda", 'torch.cuda.is_available()')
            return x.to(xm.xla_device())
        ''',
    ),
    '"cuda:" % / .format / + concat': (
        '''
        import torch
        a = torch.zeros(1, device="cuda:%d" % rank)
        b = torch.zeros(1).to("cuda:{}".format(rank))
        c = torch.zeros(1).to('cuda:' + str(rank))
        ''',
        '''
        import torch
        import torch_xla.core.xla_model as xm
        a = torch.zeros(1, device=xm.xla_device())
        b = torch.zeros(1).to(xm.xla_device())
        c = torch.zeros(1).to(xm.xla_device())
        ''',
    ),
    "# type: comment": (
        '''
        import torch
        for x in loader:  # type: torch.Tensor
            y = x.cuda()  # type: torch.cuda.FloatTensor
        def f(a,  # type: int
              b=torch.device("cuda"),  # type: str
              ):
            # type: (...) -> None
            pass
        ''',
        '''
        import torch
        import torch_xla.core.xla_model as xm
        for x in loader:  # type: torch.Tensor
            y = x.to(xm.xla_device())  # type: torch.cuda.FloatTensor
        def f(a,  # type: int
              b=xm.xla_device(),  # type: str
              ):
            # type: (...) -> None
            pass
        ''',
    ),
    "torch.cuda.* inside an f-string": (
        '''
        import torch
        print(f"{torch.cuda.device_count()} cards, {torch.cuda.get_device_name(0)!r:>{width}} {{torch.cuda}}")
        ''',
        '''
        import torch
        import torch_xla
        import torch_xla.core.xla_model as xm
        print(f"{torch_xla.device_count()} cards, {xm.xla_device_kind()!r:>{width}} {{torch.cuda}}")
        ''',
    ),
    'f"cuda:{..}"': (
        '''
        import torch
        device = f"cuda:{rank}"
        net = torch.nn.Linear(1, 1).to(device)
        x = torch.zeros(1).to(f'cuda:{rank}')
        ''',
        '''
        import torch
        import torch_xla.core.xla_model as xm
        device = xm.xla_device()
        net = torch.nn.Linear(1, 1).to(device)
        x = torch.zeros(1).to(xm.xla_device())
        ''',
    ),
    "commented-out CUDA code": (
        '''
        import torch
        # torch.cuda.set_device(0)
        net = torch.nn.Linear(1, 1)
        # net = net.cuda()
        net.cuda()  # was: net.cuda(0)
        # if torch.cuda.is_available():
        #     torch.cuda.empty_cache()
        ''',
        '''
        import torch
        import torch_xla.core.xla_model as xm
        # torch.cuda.set_device(0)
        net = torch.nn.Linear(1, 1)
        # net = net.cuda()
        net.to(xm.xla_device())  # was: net.cuda(0)
        # if torch.cuda.is_available():
        #     torch.cuda.empty_cache()
        ''',
    ),
    "walrus": (
        '''
        import torch
        if (n := torch.cuda.device_count()) > 1 and (d := torch.device("cuda")):
            print(n, d)
        while (x := next(it).cuda()) is not None:
            pass
        ''',
        '''
        import torch
        import torch_xla
        import torch_xla.core.xla_model as xm
        if (n := torch_xla.device_count()) > 1 and (d := xm.xla_device()):
            print(n, d)
        while (x := next(it).to(xm.xla_device())) is not None:
            pass
        ''',
    ),
    'argparse default="cuda"': (
        '''
        import argparse
        import torch
        parser = argparse.ArgumentParser()
        parser.add_argument("--device", default="cuda", help="cuda or cpu")
        parser.add_argument('--gpu', type=str, default='cuda:0')
        args = parser.parse_args()
        net = torch.nn.Linear(1, 1).to(args.device)
        ''',
        '''
        import argparse
        import torch
        import torch_xla
        parser = argparse.ArgumentParser()
        parser.add_argument("--device", default="xla", help="cuda or cpu")
        parser.add_argument('--gpu', type=str, default='xla')
        args = parser.parse_args()
        net = torch.nn.Linear(1, 1).to(args.device)
        ''',
    ),
    "DataLoader(**kwargs) hides pin_memory": (
        '''
        import torch
        kwargs = {"num_workers": 1, "pin_memory": True} if torch.cuda.is_available() else {}
        loader = torch.utils.data.DataLoader(data, **kwargs)
        ''',
        '''
        import torch
        kwargs = {"num_workers": 1, "pin_memory": False}
        loader = torch.utils.data.DataLoader(data, **kwargs)
        ''',
    ),
    "fmt/noqa pragmas": (
        '''
        import torch  # noqa: E402
        from torch.cuda.amp import autocast, custom_fwd  # isort: skip
        # fmt: off
        table = [1,2,
                 torch.zeros( 3 ).cuda()]
        # fmt: on
        net.cuda( )  # noqa
        with autocast():  # pragma: no cover
            pass
        ''',
        '''
        import torch  # noqa: E402
        import torch_xla.core.xla_model as xm
        # fmt: off
        table = [1,2,
                 torch.zeros( 3 ).to(xm.xla_device())]
        # fmt: on
        net.to(xm.xla_device())  # noqa
        with torch.autocast("xla", dtype=torch.bfloat16):  # pragma: no cover
            pass
        ''',
    ),
    "device ternary with a compound test": (
        '''
        import torch
        device = torch.device("cuda" if torch.cuda.is_available() and not args.cpu else "cpu")
        other = torch.device("cuda:0") if args.gpu and torch.cuda.is_available() else torch.device("cpu")
        ''',
        '''
        import torch
        import torch_xla.core.xla_model as xm
        device = xm.xla_device() if not args.cpu else torch.device("cpu")
        other = xm.xla_device() if args.gpu else torch.device("cpu")
        ''',
    ),
    "map_location=lambda": (
        '''
        import torch
        a = torch.load(f, map_location=lambda storage, loc: storage)
        b = torch.load(f, map_location=lambda storage, loc: storage.cuda(gpu))
        ''',
        '''
        import torch
        a = torch.load(f, map_location="cpu")
        b = torch.load(f, map_location="cpu")
        ''',
    ),
    "alias: import torch as X": (
        '''
        import torch as th
        from torch import nn
        x = th.zeros(1).cuda()
        th.cuda.empty_cache()
        d = th.device("cuda")
        ''',
        '''
        import torch as th
        from torch import nn
        import torch_xla.core.xla_model as xm
        x = th.zeros(1).to(xm.xla_device())
        d = xm.xla_device()
        ''',
    ),
    "decorator @autocast/custom_fwd": (
        '''
        import torch
        from torch.cuda.amp import autocast, custom_bwd, custom_fwd
        @autocast()
        def f(x):
            return x.cuda()
        @torch.cuda.amp.autocast(enabled=False)
        def g(x):
            return x
        class Own(torch.autograd.Function):
            @staticmethod
            @custom_fwd
            def forward(ctx, x):
                return x
            @staticmethod
            @custom_bwd
            def backward(ctx, g):
                return g
        ''',
        '''
        import torch
        import torch_xla.core.xla_model as xm
        @torch.autocast("xla", dtype=torch.bfloat16)
        def f(x):
            return x.to(xm.xla_device())
        @torch.autocast("xla", enabled=False)
        def g(x):
            return x
        class Own(torch.autograd.Function):
            @staticmethod
            @torch.amp.custom_fwd(device_type="xla")
            def forward(ctx, x):
                return x
            @staticmethod
            @torch.amp.custom_bwd(device_type="xla")
            def backward(ctx, g):
                return g
        ''',
    ),
    "nested f-string": (
        '''
        import torch
        print(f"a {f'{torch.cuda.device_count()} b'} {'cuda'!r} c")
        ''',
        '''
        import torch
        import torch_xla
        print(f"a {f'{torch_xla.device_count()} b'} {'xla'!r} c")
        ''',
    ),
    "hasattr(torch.backends, 'mps')": (
        '''
        import torch
        if torch.cuda.is_available():
            device = torch.device("cuda")
        elif hasattr(torch.backends, "mps") and torch.backends.mps.is_available():
            device = torch.device("mps")
        else:
            device = torch.device("cpu")
        ''',
        '''
        import torch
        import torch_xla.core.xla_model as xm
        device = xm.xla_device()
        ''',
    ),
    "from torch.cuda.amp import GradScaler": (
        '''
        import torch
        from torch.cuda.amp import GradScaler
        scaler = GradScaler(enabled=args.amp)
        ''',
        '''
        import torch
        scaler = torch.amp.GradScaler("xla", enabled=False)
        ''',
    ),
    "argparse default=torch.cuda.is_available()": (
        '''
        import argparse
        import torch
        parser = argparse.ArgumentParser()
        parser.add_argument("--amp", default=torch.cuda.is_available())
        parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
        ''',
        '''
        import argparse
        import torch
        import torch_xla
        parser = argparse.ArgumentParser()
        parser.add_argument("--amp", default=True)
        parser.add_argument("--device", default="xla")
        ''',
    ),
    "statements joined by semicolons": (
        '''
        import torch
        net.cuda(); torch.cuda.empty_cache(); print(1)
        if done: torch.cuda.synchronize(); x = y.cuda()
        torch.cuda.empty_cache(); net.eval();
        ''',
        '''
        import torch
        import torch_xla
        import torch_xla.core.xla_model as xm
        net.to(xm.xla_device()); print(1)
        if done: torch_xla.sync(wait=True); x = y.to(xm.xla_device())
        net.eval();
        ''',
    ),
    "import and use joined by a semicolon": (
        '''
        import torch; net.cuda()
        ''',
        '''
        import torch_xla.core.xla_model as xm
        import torch; net.to(xm.xla_device())
        ''',
    ),
    'x.to(f"cuda:{..}")': (
        '''
        import torch
        x = torch.zeros(1).to(f"cuda:{rank}", non_blocking=True)
        ''',
        '''
        import torch
        import torch_xla.core.xla_model as xm
        x = torch.zeros(1).to(xm.xla_device(), non_blocking=True)
        ''',
    ),
    "from torch.cuda.amp import autocast": (
        '''
        import torch
        from torch.cuda.amp import autocast as ac
        with ac(), open(f) as g:
            net()
        ''',
        '''
        import torch
        with torch.autocast("xla", dtype=torch.bfloat16), open(f) as g:
            net()
        ''',
    ),
    "from torch import device": (
        '''
        from torch import device, nn
        d = device("cuda:0")
        ''',
        '''
        from torch import device, nn
        import torch_xla.core.xla_model as xm
        d = xm.xla_device()
        ''',
    ),
    "from torch.cuda import amp": (
        '''
        import torch
        from torch.cuda import amp
        scaler = amp.GradScaler()
        with amp.autocast():
            net()
        ''',
        '''
        import torch
        scaler = torch.amp.GradScaler("xla", enabled=False)
        with torch.autocast("xla", dtype=torch.bfloat16):
            net()
        ''',
    ),
    "from torch.cuda.amp import *": (
        '''
        import torch
        from torch.cuda.amp import *
        with autocast():
            net()
        ''',
        '''
        import torch
        with torch.autocast("xla", dtype=torch.bfloat16):
            net()
        ''',
    ),
    "alias: import torch.cuda.amp as X": (
        '''
        import torch
        import torch.cuda.amp as amp
        with amp.autocast(dtype=torch.float16):
            net()
        ''',
        '''
        import torch
        with torch.autocast("xla", dtype=torch.bfloat16):
            net()
        ''',
    ),
    "torch.cuda attribute bound to a variable": (
        '''
        import torch
        autocast = torch.cuda.amp.autocast
        with autocast(enabled=flag):
            net()
        ''',
        '''
        import torch
        import functools
        autocast = functools.partial(torch.autocast, "xla", dtype=torch.bfloat16)
        with autocast(enabled=flag):
            net()
        ''',
    ),
    "getattr(torch.cuda.amp, 'autocast')": (
        '''
        import torch
        try:
            if getattr(torch.cuda.amp, 'autocast') is not None:
                native = True
        except AttributeError:
            pass
        with getattr(torch.cuda.amp, 'autocast')():
            net()
        ''',
        '''
        import torch
        try:
            if torch.autocast is not None:
                native = True
        except AttributeError:
            pass
        with torch.autocast("xla", dtype=torch.bfloat16):
            net()
        ''',
    ),
    ".to(rank): integer device": (
        '''
        import torch
        torch.distributed.init_process_group("nccl")
        rank = torch.distributed.get_rank()
        a = torch.zeros(1).to(rank)
        b = torch.zeros(1).to(torch.float32)
        c = path.to(other)
        ''',
        '''
        import torch
        import torch_xla.core.xla_model as xm
        import torch_xla.distributed.xla_backend
        torch.distributed.init_process_group("xla", init_method="xla://")
        rank = torch.distributed.get_rank()
        a = torch.zeros(1).to(xm.xla_device())
        b = torch.zeros(1).to(torch.float32)
        c = path.to(other)
        ''',
    ),
    ".cuda(device=)": (
        '''
        import torch
        net.cuda(device=0)
        x = x.cuda(device=args.gpu, non_blocking=True)
        ''',
        '''
        import torch
        import torch_xla.core.xla_model as xm
        net.to(xm.xla_device())
        x = x.to(xm.xla_device(), non_blocking=True)
        ''',
    ),
    "nn.DataParallel(model).cuda() chain": (
        '''
        import torch
        net = torch.nn.DataParallel(net).cuda()
        ''',
        '''
        import torch
        import torch_xla.core.xla_model as xm
        net = torch.nn.DataParallel(net).to(xm.xla_device())
        ''',
    ),
    "from torch.cuda.nvtx import range as ..": (
        '''
        import torch
        from torch.cuda.nvtx import range as nvtx_range
        with nvtx_range("forward"):
            net()
        ''',
        '''
        import torch
        import torch_xla.debug.profiler as xp
        with xp.Trace("forward"):
            net()
        ''',
    ),
    "from torch.cuda import nvtx": (
        '''
        import torch
        from torch.cuda import nvtx
        nvtx.range_push("forward")
        net()
        nvtx.range_pop()
        ''',
        '''
        import torch
        net()
        ''',
    ),
    "map_location={'cuda:0': ..} dict": (
        '''
        import torch
        state = torch.load(f, map_location={"cuda:0": f"cuda:{rank}"})
        ''',
        '''
        import torch
        state = torch.load(f, map_location="cpu")
        ''',
    ),
    "from torch.cuda import Stream": (
        '''
        import torch
        from torch.cuda import Stream
        side = Stream()
        with torch.cuda.stream(side):
            x = x.cuda()
        ''',
        '''
        import torch
        import torch_xla.core.xla_model as xm
        x = x.to(xm.xla_device())
        ''',
    ),
    "alias: import torch.cuda.profiler as X": (
        '''
        import torch
        import torch.cuda.profiler as profiler
        profiler.start()
        net.cuda()
        profiler.stop()
        ''',
        '''
        import torch
        import torch_xla.core.xla_model as xm
        net.to(xm.xla_device())
        ''',
    ),
    "Tensor = torch.cuda.FloatTensor if cuda else torch.FloatTensor": (
        '''
        import torch
        Tensor = torch.cuda.FloatTensor if cuda else torch.FloatTensor
        x = Tensor(3, 4)
        y = x.type(Tensor)
        ''',
        '''
        import torch
        import torch_xla.core.xla_model as xm
        Tensor = torch.FloatTensor
        x = Tensor(3, 4).to(xm.xla_device())
        y = x.to(xm.xla_device(), torch.float32)
        ''',
    ),
    "match statement": (
        '''
        import torch
        match kind:
            case "cuda":
                x = x.cuda()
            case "cpu" | None:
                torch.cuda.empty_cache()
            case torch.device(type="cuda") as d:
                pass
        ''',
        None,
    ),
    "except*": (
        '''
        import torch
        try:
            x.cuda()
        except* ValueError:
            torch.cuda.empty_cache()
        ''',
        '''
        import torch
        import torch_xla.core.xla_model as xm
        try:
            x.to(xm.xla_device())
        except* ValueError:
            pass
        ''',
    ),
    "tabs": (
        "import torch\ndef f(x):\n\tif torch.cuda.is_available():\n\t\tx = x.cuda()\n\treturn x\n",
        f"import torch\n{IMPORT}def f(x):\n\tx = x.to(xm.xla_device())\n\treturn x\n",
    ),
    "tabs and spaces mixed": (
        "import torch\ndef f(x):\n\tx = x.cuda()\n\treturn x\ndef g(x):\n  x = (x,\n\t  x.cuda())\n  torch.cuda.empty_cache()\n",
        f"import torch\n{IMPORT}def f(x):\n\tx = x.to(xm.xla_device())\n\treturn x\ndef g(x):\n  x = (x,\n\t  x.to(xm.xla_device()))\n",
    ),
    "no newline at the end": ("import torch\nx.cuda()", f"import torch\n{IMPORT}x.to(xm.xla_device())"),
    "CRLF": ("import torch\r\nx.cuda()  # c\r\n", f"import torch\r\n{IMPORT[:-1]}\r\nx.to(xm.xla_device())  # c\r\n"),
}


@pytest.mark.parametrize("before, after", SPELLINGS.values(), ids=SPELLINGS)
def test_spelling(before, after):
    done = ported(program(before))
    if after is not None:
        assert done == program(after)


UNTOUCHED = {
    "getattr(torch, dtype)": 'dtype = getattr(torch, args.dtype)\nother = getattr(torch, "float32")\n',
    "hasattr(torch, ..)": 'if hasattr(torch, "compile") and hasattr(torch, name) and hasattr(torch, "get_default_device"):\n    pass\n',
    "hasattr(torch, 'xpu')": 'if hasattr(torch, "xpu") and torch.xpu.is_available():\n    kind = "xpu"\n',
    "getattr(torch, 'distributed')": 'dist = getattr(torch, "distributed", None)\n',
    "optimizer.step spelled opt_rref.rpc_sync()": "opt_rref.rpc_sync().step()\n",
    "the user's own names": "use_cuda = True\ndef cuda(x): return x\ny = cuda(use_cuda)\nobj.cuda_version = 1\n",
    "texts that begin with cuda": 'print(sizes["cuda_size"], "cuda_" + name, f"cuda {x} y", f"cuda_{x}", "cuda-%s" % x, "cuda{}".format(x))\n',
    "a file name": 'open("/data/cuda/list.txt")\nname = "cuda_kernel.cu"\n',
}


@pytest.mark.parametrize("text", UNTOUCHED.values(), ids=UNTOUCHED)
def test_what_is_left_alone(text):
    text = "import torch\n" + text
    assert ported(text) == text


REPORTED = {
    "getattr(torch.cuda, '_is_in_bad_fork')": 'if getattr(torch.cuda, "_is_in_bad_fork", no)():\n    raise RuntimeError\n',
    "getattr(torch, device_type)": "module = getattr(torch, args.device_type)\nmodule.empty_cache()\n",
    "alias: import torch.cuda.nccl as X": "import torch.cuda.nccl as nccl\nif nccl.version() > (2, 10):\n    pass\n",
    "from torch.cuda._graph_annotations import ..": "from torch.cuda._graph_annotations import mark_kernels\nmark_kernels()\n",
    "torch.backends.cuda.SDPAParams": 'if hasattr(torch.backends.cuda.SDPAParams, "enable_gqa"):\n    pass\n',
    "nn.DataParallel": "net = torch.nn.DataParallel(net)\n",
}


@pytest.mark.parametrize("text", REPORTED.values(), ids=REPORTED)
def test_what_is_left_for_a_person_is_named_at_its_line(text):
    done = change("import torch\n" + text)
    assert done.after.text == "import torch\n" + text
    assert 2 in {finding.location.line for finding in done.remaining if finding.code != KEPT_CODE}


@pytest.mark.parametrize("cut", ['int(device.strip("cuda:"))', 'int(device.split(":")[1])', 'int(device.replace("cuda:", ""))', "int(device[5:])"])
def test_a_device_name_that_is_cut_up_is_named(cut):
    text = f'import torch\ndevice = "cuda:1"\nnumber = {cut}\nnet.to(device)\n'
    done = change(text)
    lines = done.after.text.splitlines()
    assert f"number = {cut}" in {lines[finding.location.line - 1] for finding in done.remaining if finding.is_idiom}


def test_a_bom_stays():
    raw = b"\xef\xbb\xbfimport torch\nx.cuda()\n"
    after = change(raw).after.raw
    assert after == b"\xef\xbb\xbfimport torch\n" + IMPORT.encode() + b"x.to(xm.xla_device())\n"
    assert change(after).after.raw == after


def test_a_cookie_that_is_not_utf8_stays_true():
    raw = "# -*- coding: latin-1 -*-\nimport torch\nname = 'é'; x.cuda()  # Ü\n".encode("latin-1")
    after = change(raw).after.raw
    assert after.decode("latin-1") == f"# -*- coding: latin-1 -*-\nimport torch\n{IMPORT}name = 'é'; x.to(xm.xla_device())  # Ü\n"


@pytest.mark.parametrize("text", ["import torch\nprint 'cuda'\n", "import torch\ndef f():\nx.cuda()\n", "import torch\ntype X[T] = T.cuda(\n"])
def test_a_syntax_error_is_one_finding(text):
    done = change(text)
    assert done.after is done.before
    assert [finding.code for finding in done.remaining] == [SYNTAX_CODE]


def test_a_device_option_of_another_file():
    options = "import argparse\ndef parse():\n    p = argparse.ArgumentParser()\n    p.add_argument('--device', default='cuda')\n    return p.parse_args()\n"
    text = "import torch\nfrom options import parse\nargs = parse()\nnet = torch.nn.Linear(1, 1).to(args.device)\nif args.device == 'cuda':\n    pass\n"
    after = ported(text, {"options.py": options})
    assert "args.device == 'xla'" in after


PARALLELIZE = """\
from torch.distributed.fsdp import fully_shard

def apply_fsdp(model):
    fully_shard(model)

def parallelize(model):
    apply_fsdp(model)
    return model
"""
ON_META = """\
import torch
from parallelize import parallelize

def main(Model, loader):
    with torch.device("meta"):
        model = Model()
    {before}
    model.to_empty(device="cuda")
    model.init_weights()
    {after}
    optimizer = torch.optim.AdamW(model.parameters())
    for x in loader:
        model(x.cuda()).sum().backward()
        optimizer.step()
"""


@pytest.mark.parametrize("settings", [{}, {"runtime_library": True}, {"distributed": "mp"}], ids=["written out", "library", "replicas"])
def test_a_model_on_meta_tensors_is_divided_once_it_has_storage(settings):
    files = {MAIN: ON_META.format(before="model = parallelize(model)", after="model.train()"), "parallelize.py": PARALLELIZE}
    first = changes(files, **settings)
    again = changes({name: item.after.text for name, item in first.items()}, **settings)
    assert all(again[name].after.text == item.after.text for name, item in first.items())
    main, helper = first[MAIN].after.text, first["parallelize.py"].after.text
    if settings.get("runtime_library"):
        assert "to_empty" not in main and helper.index("model.to_empty(") < helper.index("fsdp.wrap(model")
        return
    mark = "xm.broadcast_master_param(model)" if settings else "for fsdp_param in model.parameters()"
    assert main.index("to_empty(") < main.index("init_weights()") < main.index(mark) < main.index("optimizer =")
    assert "mark_sharding" not in helper and "fully_shard(" not in helper


def test_a_model_that_has_storage_when_a_helper_wraps_it_is_divided_there():
    done = changes({MAIN: ON_META.format(before="pass", after="model = parallelize(model)"), "parallelize.py": PARALLELIZE})
    assert "fsdp_param" not in done[MAIN].after.text and "mark_sharding(fsdp_param" in done["parallelize.py"].after.text


def test_gradients_are_averaged_before_the_clip_of_a_model_in_fsdp():
    text = (
        "import torch\nfrom torch.distributed.fsdp import FullyShardedDataParallel as FSDP\n\n"
        "def train(net, loader):\n    model = FSDP(net)\n    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n    for x in loader:\n"
        "        model(x.cuda()).sum().backward()\n        model.clip_grad_norm_(1.0)\n        optimizer.step()\n"
    )
    after = change(text, distributed="mp").after.text
    assert after.index("xm.reduce_gradients(optimizer") < after.index("torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)") < after.index("optimizer.step()")
