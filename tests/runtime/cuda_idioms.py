"""A CUDA program of many idioms, each a function: prints one JSON line for each, `[name, outcome]`, "ok" when it works.

It knows nothing of where it is carried to. Functions named `refused_` must end with one clear line of their own.
"""

import io
import json
import os
import sys
import threading
import traceback

import torch
import torch.cuda.amp as amp
import torch.distributed as dist
import torch.nn.functional as F
from torch import device as Device
from torch import nn
from torch.cuda import nvtx
from torch.cuda.amp import autocast, custom_bwd, custom_fwd


def model():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))


def trains(net, batch=None, optimizer=None):
    """Two steps lower the loss."""
    batch = torch.ones(6, 4, device=next(net.parameters()).device) if batch is None else batch
    optimizer = optimizer or torch.optim.SGD(net.parameters(), lr=0.05)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = (net(batch) - 3).pow(2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[2] < losses[0], losses


def on_cuda(*tensors):
    assert all(t.is_cuda for t in tensors), [str(t.device) for t in tensors]


# -- devices


def device_strings():
    rank = 0
    spellings = ["cuda", "cuda:0", f"cuda:{rank}", "cuda:%d" % rank, "cuda:{}".format(rank), "cuda:" + str(rank), torch.device("cuda"), torch.device("cuda", 0), Device("cuda:0"), 0]
    for device in spellings:
        on_cuda(torch.ones(2).to(device), torch.zeros(2, device=device), torch.tensor([1.0], device=device), torch.ones(2).cuda(), model().to(device)[0].weight)


def device_keywords():
    on_cuda(torch.ones(2).to(device="cuda"), torch.ones(2).to(device=0), torch.ones(2).cuda(device=0), torch.ones(2).to("cuda", torch.float64, non_blocking=True))
    on_cuda(torch.ones(2).to("cuda", dtype=torch.float64), torch.ones(2).cuda(0, non_blocking=True), torch.ones(2).cuda(torch.device("cuda")))
    assert torch.ones(2).to("cuda", torch.float64).dtype == torch.float64


def device_index_object():
    device = torch.device(0)
    on_cuda(torch.ones(2).to(device), torch.ones(2, device=device))


def device_ternary():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    assert device.type == "cuda"
    x = torch.ones(2).to(device)
    assert x.device.type == "cuda" and "cuda" in str(x.device) and x.device == torch.device("cuda:0"), x.device


def device_of_tensors_agrees():
    net = model().cuda()
    x = torch.ones(3, 4).to(next(net.parameters()).device)
    assert x.device == net[0].weight.device and x.get_device() == 0 and x.device.index == 0
    on_cuda(torch.arange(3, device=x.device), x.new_zeros(3), x.new_tensor([1.0]), torch.zeros_like(x), torch.ones(2).to(x), torch.ones(2).type_as(x))


def device_default():
    torch.set_default_device("cuda")
    try:
        x = torch.ones(3)
    finally:
        torch.set_default_device(None)
    on_cuda(x)


def device_context():
    with torch.device("cuda"):
        x, net = torch.ones(3, 4), model()
    on_cuda(x, net[0].weight)
    trains(net)


def factories():
    d = "cuda"
    made = [
        torch.zeros(2, device=d), torch.ones(2, device=d), torch.empty(2, device=d), torch.full((2,), 1.0, device=d), torch.arange(2, device=d),
        torch.linspace(0, 1, 2, device=d), torch.eye(2, device=d), torch.rand(2, device=d), torch.randn(2, device=d), torch.randint(0, 2, (2,), device=d),
        torch.randperm(4, device=d), torch.tensor([1], device=d), torch.as_tensor([1], device=d), torch.rand_like(torch.ones(2), device=d),
        torch.zeros_like(torch.ones(2), device=d), torch.ones(2).new_zeros(2, device=d), torch.tril_indices(3, 3, device=d), torch.hann_window(4, device=d),
        torch.ones(2).new_tensor([1.0], device=d), torch.asarray([1.0], device=d), torch.empty_strided((2, 2), (2, 1), device=d), torch.logspace(0, 1, 2, device=d),
    ]
    on_cuda(*made)


def layers_on_device():
    net = nn.Sequential(nn.Linear(4, 8, device="cuda"), nn.LayerNorm(8, device="cuda"), nn.Linear(8, 1, device=torch.device("cuda:0")))
    trains(net)
    on_cuda(nn.Embedding(3, 4, device="cuda").weight, nn.MultiheadAttention(4, 2, device="cuda").in_proj_weight, nn.Parameter(torch.zeros(2, device="cuda")))


def module_moves():
    for net in (model().cuda(), model().cuda(0), model().to("cuda"), model().to(0), model().to(device="cuda", dtype=torch.float32), model().cuda(torch.cuda.current_device())):
        on_cuda(*net.parameters())
    net = model().to_empty(device="cuda")
    on_cuda(*net.parameters())


def optimizer_before_move():
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    net.cuda()
    trains(net, torch.ones(6, 4).cuda(), optimizer)


def tied_weights():
    net = model()
    net.add_module("tied", nn.Linear(4, 8))
    net.tied.weight = net[0].weight
    net.cuda()
    assert net.tied.weight is net[0].weight


def legacy_types():
    x = torch.cuda.FloatTensor([1.0, 2.0])
    on_cuda(x, torch.cuda.FloatTensor(2, 3), torch.cuda.LongTensor([1]), torch.cuda.FloatTensor(2, 3).fill_(1), torch.cuda.LongTensor(3).zero_(), torch.cuda.ByteTensor(2), torch.cuda.HalfTensor(2))
    assert torch.cuda.FloatTensor(2, 3).shape == (2, 3) and torch.cuda.FloatTensor([1.0, 2.0])[1].item() == 2
    assert isinstance(x, torch.cuda.FloatTensor) and not isinstance(x, torch.cuda.LongTensor)
    assert torch.cuda.LongTensor([1]).dtype == torch.int64


def legacy_type_conversions():
    for kind in (torch.cuda.FloatTensor, "torch.cuda.FloatTensor"):
        x = torch.ones(2, dtype=torch.int64).type(kind)
        on_cuda(x)
        assert x.dtype == torch.float32
    assert x.type() == "torch.cuda.FloatTensor", x.type()
    assert x.type() in ("torch.cuda.FloatTensor", "torch.cuda.HalfTensor")
    assert torch.ones(2).cuda().long().type() == "torch.cuda.LongTensor"


def legacy_type_variable():
    Tensor = torch.cuda.FloatTensor if torch.cuda.is_available() else torch.FloatTensor
    valid = torch.autograd.Variable(Tensor(3, 1).fill_(1.0), requires_grad=False)
    real = torch.autograd.Variable(torch.ones(3).type(Tensor))
    alpha = Tensor([[0.5], [0.25]])
    on_cuda(valid, real, alpha)


def legacy_default_type():
    torch.set_default_tensor_type("torch.cuda.FloatTensor")
    try:
        on_cuda(torch.ones(2))
    finally:
        torch.set_default_tensor_type("torch.FloatTensor")
    assert torch.get_default_dtype() == torch.float32
    torch.set_default_tensor_type(torch.cuda.DoubleTensor)
    try:
        assert torch.ones(2).dtype == torch.float64
    finally:
        torch.set_default_tensor_type(torch.FloatTensor)


def loading():
    file = io.BytesIO()
    net = model().cuda()
    torch.save({"model": net.state_dict(), "x": torch.ones(2).cuda()}, file)
    for where in (None, "cuda", "cuda:0", "cpu", torch.device("cuda"), {"cuda:0": "cuda:0"}, {"cuda:0": "cpu"}, lambda storage, location: storage, lambda storage, location: storage.cuda(0)):
        file.seek(0)
        state = torch.load(file, map_location=where) if where is not None else torch.load(file)
        model().cuda().load_state_dict(state["model"])
    file.seek(0)
    state = torch.load(file, map_location="cuda", weights_only=True)
    on_cuda(state["x"])
    file.seek(0)
    assert torch.load(file, "cpu")["x"].sum().item() == 2


def optimizer_state_round_trip():
    net = model().cuda()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    trains(net, None, optimizer)
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    file.seek(0)
    optimizer.load_state_dict(torch.load(file, map_location="cuda:0"))
    for state in optimizer.state.values():
        for key, value in state.items():
            if torch.is_tensor(value):
                state[key] = value.cuda()
    trains(net, None, optimizer)


def is_cuda_guards():
    x = torch.ones(2).cuda()
    assert x.is_cuda and next(model().cuda().parameters()).is_cuda
    assert (x if x.is_cuda else x.cuda()).is_cuda
    assert torch.is_tensor(x) and x.device.type != "cpu"


def to_cpu_and_back():
    x = torch.arange(3.0).cuda()
    assert x.cpu().numpy().tolist() == [0, 1, 2] and x.tolist() == [0, 1, 2] and x.sum().item() == 3
    assert x.to("cpu").sum() == 3 and x.detach().cpu().data.numpy().shape == (3,)
    assert bool((x == x.clone()).all())


# -- mixed precision


def autocast_spellings():
    net, x = model().cuda(), torch.ones(6, 4).cuda()
    contexts = [
        autocast(), amp.autocast(), torch.cuda.amp.autocast(enabled=True), torch.cuda.amp.autocast(True), torch.cuda.amp.autocast(dtype=torch.float16), torch.autocast("cuda"),
        torch.autocast(device_type="cuda", dtype=torch.float16), torch.autocast(device_type="cuda", dtype=torch.bfloat16), torch.amp.autocast("cuda"), torch.autocast(x.device.type),
        torch.amp.autocast(device_type=x.device.type, dtype=torch.float16), torch.autocast(torch.device("cuda").type), torch.amp.autocast_mode.autocast("cuda"),
    ]
    for context in contexts:
        with context:
            assert torch.is_autocast_enabled() and torch.is_autocast_enabled("cuda")
            assert net(x).dtype == torch.bfloat16, (context.device, net(x).dtype)
        assert not torch.is_autocast_enabled()


def autocast_off():
    net, x = model().cuda(), torch.ones(6, 4).cuda()
    for context in (autocast(False), torch.autocast("cuda", enabled=False), torch.cuda.amp.autocast(enabled=False)):
        with torch.autocast("cuda"), context:
            assert net(x).dtype == torch.float32


def autocast_decorators():
    net, x = model().cuda(), torch.ones(6, 4).cuda()

    @torch.cuda.amp.autocast()
    def first(v):
        return net(v)

    @torch.autocast(device_type="cuda")
    def second(v):
        return net(v)

    assert first(x).dtype == second(x).dtype == torch.bfloat16


def autocast_functions():
    class Twice(torch.autograd.Function):
        @staticmethod
        @custom_fwd
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        @custom_bwd
        def backward(ctx, grad):
            return grad * 2

    class Thrice(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
        def forward(ctx, x):
            assert x.dtype == torch.float32
            return x * 3

        @staticmethod
        @torch.amp.custom_bwd(device_type="cuda")
        def backward(ctx, grad):
            return grad * 3

    class Half(torch.autograd.Function):
        @staticmethod
        @custom_fwd(cast_inputs=torch.float16)
        def forward(ctx, x):
            return x * 3

        @staticmethod
        @custom_bwd
        def backward(ctx, grad):
            return grad * 3

    x = torch.ones(2).cuda().requires_grad_()
    with autocast():
        (Twice.apply(x).sum() + Thrice.apply(x.bfloat16()).sum() + Half.apply(x).float().sum()).backward()
    assert x.grad.tolist() == [8, 8]


def autocast_state():
    assert torch.get_autocast_gpu_dtype() in (torch.float16, torch.bfloat16)
    assert torch.get_autocast_dtype("cuda") in (torch.float16, torch.bfloat16)
    torch.set_autocast_enabled(False)
    torch.set_autocast_gpu_dtype(torch.bfloat16)
    torch.set_autocast_enabled("cuda", False)
    torch.set_autocast_dtype("cuda", torch.bfloat16)
    torch.clear_autocast_cache()
    torch.is_autocast_cache_enabled()


def scaler_loop():
    for scaler in (amp.GradScaler(), torch.cuda.amp.GradScaler(enabled=True), torch.amp.GradScaler("cuda"), torch.amp.GradScaler(device="cuda", init_scale=128.0), torch.GradScaler("cuda"), amp.GradScaler(enabled=False)):
        net = model().cuda()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
        for _ in range(2):
            with autocast():
                loss = net(torch.ones(6, 4).cuda()).pow(2).mean()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            before = scaler.get_scale()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad(set_to_none=True)
            assert scaler.get_scale() >= before


def scaler_state():
    scaler = torch.cuda.amp.GradScaler(init_scale=2.0**10, growth_factor=2.0, backoff_factor=0.5, growth_interval=100)
    assert (scaler.get_growth_factor(), scaler.get_backoff_factor(), scaler.get_growth_interval()) == (2.0, 0.5, 100)
    scaler.set_growth_interval(50)
    scaler.set_growth_factor(4.0)
    state = scaler.state_dict()
    assert {"scale", "growth_factor", "backoff_factor", "growth_interval", "_growth_tracker"} <= set(state)
    other = torch.cuda.amp.GradScaler()
    other.load_state_dict(state)
    other.load_state_dict({"scale": 65536.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 2000, "_growth_tracker": 3})
    isinstance(scaler.is_enabled(), bool)


def half_models():
    net, x = model().cuda().half(), torch.ones(6, 4).cuda().half()
    assert net(x).dtype == torch.float16
    assert model().to("cuda", torch.bfloat16)(x.bfloat16()).dtype == torch.bfloat16


def precision_switches():
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.deterministic = False
    torch.backends.cudnn.enabled = True
    torch.backends.cudnn.allow_tf32 = True
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.set_float32_matmul_precision("high")
    torch.set_float32_matmul_precision("highest")
    torch.backends.cuda.enable_flash_sdp(True)
    torch.backends.cudnn.version()
    assert torch.backends.cudnn.is_available() in (True, False)
    with torch.backends.cudnn.flags(enabled=False):
        trains(model().cuda())
    torch.use_deterministic_algorithms(True)
    trains(model().cuda())
    torch.use_deterministic_algorithms(False)


def attention_kernels():
    q = torch.ones(1, 2, 4, 8).cuda()
    F.scaled_dot_product_attention(q, q, q, is_causal=True)
    with torch.backends.cuda.sdp_kernel(enable_flash=True, enable_math=True, enable_mem_efficient=True):
        F.scaled_dot_product_attention(q, q, q)
    from torch.nn.attention import SDPBackend, sdpa_kernel

    with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]):
        F.scaled_dot_product_attention(q, q, q)
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        F.scaled_dot_product_attention(q, q, q)


def channels_last():
    net = nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last).cuda()
    x = torch.ones(2, 3, 8, 8).to("cuda", memory_format=torch.channels_last, non_blocking=True)
    net(x.contiguous(memory_format=torch.channels_last)).sum().backward()
    torch.ones(2, 3, 8, 8).cuda(memory_format=torch.channels_last)
    nn.Conv2d(3, 4, 3).to("cuda", memory_format=torch.channels_last)


# -- optimizers


def optimizer_switches():
    for keywords in ({"fused": True}, {"foreach": True}, {"capturable": True}, {"fused": True, "betas": (0.9, 0.95)}):
        net = model().cuda()
        trains(net, None, torch.optim.AdamW(net.parameters(), lr=0.01, **keywords))
    net = model().cuda()
    trains(net, None, torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, fused=True))
    optimizer = torch.optim.AdamW([{"params": net[0].parameters(), "fused": True}, {"params": net[2].parameters()}], lr=0.01)
    trains(net, None, optimizer)


def clipping():
    net = model().cuda()
    net(torch.ones(6, 4).cuda()).sum().backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0, foreach=True)
    nn.utils.clip_grad_value_(net.parameters(), 1.0)


# -- compiled


def compiled_function():
    net = model().cuda()
    trains(torch.compile(net))
    trains(torch.compile(net, mode="reduce-overhead", fullgraph=True, dynamic=False))
    trains(torch.compile(model().cuda(), backend="inductor"))


def compiled_decorator():
    @torch.compile
    def one(x):
        return x + 1

    @torch.compile(mode="max-autotune")
    def two(x):
        return x + 2

    assert one(torch.zeros(1).cuda()).item() == 1 and two(torch.zeros(1).cuda()).item() == 2


def compiled_method():
    net = model().cuda()
    net.compile()
    net.forward = torch.compile(net.forward)
    trains(net)
    torch._dynamo.config.cache_size_limit = 64
    torch._dynamo.reset()
    torch.compiler.reset()
    assert not torch.compiler.is_compiling()

    @torch.compiler.disable
    def plain(x):
        return x

    plain(torch.ones(1).cuda())


def compiled_prefix():
    net = torch.compile(model().cuda())
    assert all(not key.startswith("wrong") for key in net.state_dict())
    inner = getattr(net, "_orig_mod", net)
    inner.load_state_dict({key.removeprefix("_orig_mod."): value for key, value in net.state_dict().items()})


def scripted():
    @torch.jit.script
    def one(x):
        return x + 1

    assert one(torch.zeros(1).cuda()).item() == 1
    torch.jit.trace(model().cuda(), torch.ones(6, 4).cuda())


# -- streams, memory, time


def streams():
    s = torch.cuda.Stream()
    s.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(s):
        x = torch.ones(3).pin_memory().cuda(non_blocking=True)
        x.record_stream(torch.cuda.current_stream())
    torch.cuda.current_stream().wait_stream(s)
    torch.cuda.default_stream().synchronize()
    high = torch.cuda.Stream(device="cuda:0", priority=-1)
    with high:
        pass
    with torch.cuda.stream(None):
        pass
    assert s.query() and s == s and torch.cuda.current_stream() == torch.cuda.default_stream()
    assert isinstance(s, torch.cuda.Stream) and isinstance(s, torch.Stream)
    torch.cuda.set_stream(s)
    torch.Stream("cuda").wait_stream(s)


def events():
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    torch.ones(3).cuda().sum()
    end.record(torch.cuda.current_stream())
    torch.cuda.synchronize()
    end.synchronize()
    assert start.elapsed_time(end) >= 0 and end.query()
    torch.cuda.current_stream().record_event(start).wait()
    torch.cuda.current_stream().wait_event(end)
    torch.Event("cuda").record()


def memory():
    c = torch.cuda
    c.empty_cache(), c.reset_peak_memory_stats(), c.ipc_collect(), c.reset_max_memory_allocated(), c.set_per_process_memory_fraction(0.5)
    numbers = [c.memory_allocated(), c.max_memory_allocated(0), c.memory_reserved(), c.max_memory_reserved(device=torch.device("cuda")), *c.mem_get_info(), c.max_memory_cached()]
    assert all(isinstance(number, int) for number in numbers)
    assert c.memory_allocated() / 1024**3 >= 0 and isinstance(c.memory_summary(), str)
    assert c.memory_stats().get("allocated_bytes.all.peak", 0) == 0 and c.memory_stats()["num_ooms"] == 0
    free, total = c.mem_get_info()
    assert 0 < free <= total
    c.memory._record_memory_history(max_entries=1000)
    c.memory.memory_allocated(), c.memory.empty_cache(), c.memory.max_memory_allocated()
    isinstance(c.memory_snapshot(), list)


def properties():
    c = torch.cuda
    p = c.get_device_properties(0)
    assert p.total_memory > 0 and p.major >= 7 and p.minor >= 0 and p.name and p.multi_processor_count > 0
    assert c.get_device_capability() >= (7, 0) and c.get_device_capability(torch.device("cuda"))[0] >= 8 and c.get_device_name(0) and c.get_device_name()
    assert c.device_count() >= 1 and c.current_device() == 0 and c.is_initialized() and c.is_bf16_supported() and c.is_bf16_supported(including_emulation=False)
    for i in range(c.device_count()):
        f"{i}: {c.get_device_name(i)} {c.get_device_properties(i).total_memory / 2**30:.1f} GiB {c.get_device_properties(i)}"
    c.get_arch_list(), c.get_gencode_flags(), c.utilization(), c.temperature(), c.init(), c.list_gpu_processes()
    assert torch.version.cuda is None or torch.version.cuda
    assert torch.backends.cuda.is_built() and torch.cuda._is_compiled()


def set_device():
    torch.cuda.set_device(0), torch.cuda.set_device("cuda:0"), torch.cuda.set_device(torch.device("cuda", 0))
    with torch.cuda.device(0), torch.cuda.device("cuda:0"), torch.cuda.device_of(torch.ones(1).cuda()), torch.cuda.device(torch.device("cuda")):
        on_cuda(torch.ones(1).cuda())
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    assert torch.cuda.current_device() == 0


def pinned():
    x = torch.ones(2).pin_memory()
    assert x.is_pinned() and torch.empty(2, pin_memory=True).is_pinned()
    x.cuda(non_blocking=True), torch.ones(2).pin_memory("cuda")
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(4, 4)), batch_size=2, pin_memory=True, pin_memory_device="cuda")
    for (batch,) in loader:
        on_cuda(batch.cuda(non_blocking=True))
    assert len(list(torch.utils.data.DataLoader(range(4), 2, False, None, None, 0, None, True))) == 2


def profiling():
    nvtx.range_push("a"), nvtx.range_pop(), nvtx.mark("b")
    with nvtx.range("step"), torch.autograd.profiler.emit_nvtx(enabled=False):
        pass

    @nvtx.range("decorated")
    def f():
        return 1

    assert f() == 1
    torch.cuda.profiler.start(), torch.cuda.profiler.stop()
    torch.cuda.cudart().cudaProfilerStart()
    torch.cuda.check_error(torch.cuda.cudart().cudaProfilerStop())
    with torch.cuda.profiler.profile():
        pass
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]) as profile:
        torch.ones(3).cuda().sum()
    profile.key_averages().table(sort_by="cuda_time_total", row_limit=3)
    assert torch.profiler.ProfilerActivity.CUDA in torch.profiler.supported_activities() or True
    with torch.autograd.profiler.profile(use_cuda=True):
        torch.ones(3).cuda().sum()


def graphed_callables():
    net = torch.cuda.make_graphed_callables(model().cuda(), (torch.ones(6, 4).cuda(),))
    net(torch.ones(6, 4).cuda())
    assert not torch.cuda.is_current_stream_capturing()


def out_of_memory_handlers():
    for kind in (torch.cuda.OutOfMemoryError, torch.OutOfMemoryError):
        try:
            raise RuntimeError("another")
        except kind:
            raise AssertionError
        except RuntimeError:
            pass


# -- random numbers


def seeds():
    torch.manual_seed(3), torch.cuda.manual_seed(3), torch.cuda.manual_seed_all(3)
    a = torch.rand(3, device="cuda").tolist()
    torch.manual_seed(3), torch.cuda.manual_seed(3), torch.cuda.manual_seed_all(3)
    assert torch.rand(3, device="cuda").tolist() == a
    torch.manual_seed(3)
    b = torch.rand(3, device="cuda").tolist()
    torch.manual_seed(3)
    assert torch.rand(3, device="cuda").tolist() == b
    torch.cuda.seed(), torch.cuda.seed_all()
    assert isinstance(torch.cuda.initial_seed(), int)


def rng_states():
    for get, put in ((torch.cuda.get_rng_state, torch.cuda.set_rng_state), (torch.cuda.get_rng_state_all, torch.cuda.set_rng_state_all)):
        cpu, state = torch.get_rng_state(), get()
        a = F.dropout(torch.ones(64).cuda()).tolist()
        torch.set_rng_state(cpu), put(state)
        assert F.dropout(torch.ones(64).cuda()).tolist() == a
    state = torch.cuda.get_rng_state(device="cuda:0")
    torch.cuda.set_rng_state(state, device=0), torch.cuda.set_rng_state(state.cpu(), torch.device("cuda"))
    with torch.random.fork_rng(devices=[0]):
        torch.rand(2, device="cuda")
    with torch.random.fork_rng():
        torch.rand(2, device="cuda")
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        torch.manual_seed(1)


def generators():
    for device in ("cuda", "cuda:0", torch.device("cuda")):
        generator = torch.Generator(device=device).manual_seed(5)
        a = torch.randn(3, generator=generator, device="cuda").tolist()
        assert torch.randn(3, generator=generator.manual_seed(5), device="cuda").tolist() == a
    assert isinstance(generator, torch.Generator)
    x = torch.empty(3, device="cuda")
    x.normal_(generator=generator), x.uniform_(generator=generator), torch.randint(0, 9, (3,), generator=generator, device="cuda")
    torch.randperm(4, generator=generator, device="cuda"), torch.rand(3, generator=generator, device="cuda")
    torch.multinomial(torch.ones(4).cuda(), 2, generator=generator), torch.bernoulli(torch.full((4,), 0.5).cuda(), generator=generator)
    torch.cuda.default_generators[0].manual_seed(1)
    torch.utils.data.DataLoader(range(4), shuffle=True, generator=torch.Generator(device="cpu"))


def distributions():
    p = torch.distributions.Categorical(logits=torch.zeros(2, 3).cuda())
    on_cuda(p.sample(), torch.distributions.Normal(torch.zeros(2).cuda(), 1.0).rsample(), torch.distributions.Bernoulli(torch.full((2,), 0.5).cuda()).sample())


# -- parallel


def data_parallel():
    for net in (nn.DataParallel(model()).cuda(), nn.DataParallel(model().cuda(), device_ids=[0]), torch.nn.DataParallel(model().cuda(), list(range(torch.cuda.device_count()))), nn.parallel.DataParallel(model().cuda(), device_ids=[0], output_device=0)):
        trains(net)
        assert isinstance(net.module, nn.Module) and all(key.startswith("module.") for key in net.state_dict())
    x = torch.ones(6, 4).cuda()
    assert nn.parallel.data_parallel(model().cuda(), x, range(torch.cuda.device_count())).shape == (6, 1)


def process_group():
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
    torch.cuda.set_device(0)
    dist.init_process_group("nccl", init_method="env://", world_size=1, rank=0, timeout=__import__("datetime").timedelta(seconds=60), device_id=torch.device("cuda:0"))
    assert dist.is_initialized() and dist.get_world_size() == 1 and dist.get_rank() == 0 and dist.is_nccl_available()
    if dist.get_backend() == "gloo":
        assert not dist.is_mpi_available()
    x = torch.ones(2).cuda()
    dist.all_reduce(x), dist.all_reduce(x, op=dist.ReduceOp.AVG), dist.all_reduce(x, dist.ReduceOp.MAX), dist.broadcast(x, 0), dist.broadcast(x, src=0)
    assert x.tolist() == [1, 1]
    dist.reduce_scatter_tensor(torch.zeros(2).cuda(), torch.ones(2).cuda(), op=dist.ReduceOp.AVG)
    work = dist.all_reduce(x, async_op=True)
    work.wait()
    gathered = [torch.zeros(2).cuda()]
    dist.all_gather(gathered, x)
    assert gathered[0].tolist() == [1, 1]
    whole = torch.zeros(2).cuda()
    dist.all_gather_into_tensor(whole, x)
    assert whole.tolist() == [1, 1]
    dist.reduce(x, dst=0), dist.barrier(), dist.barrier(device_ids=[0])
    objects = [None]
    dist.all_gather_object(objects, {"a": 1})
    assert objects == [{"a": 1}]
    named = ["x"]
    dist.broadcast_object_list(named, src=0), dist.broadcast_object_list(named, src=0, device=torch.device("cuda"))
    dist.gather_object({"b": 2}, objects, dst=0)
    group = dist.new_group([0], backend="nccl")
    dist.all_reduce(x, group=group)
    dist.new_group(ranks=[0]), dist.new_group(backend="gloo")
    part = torch.zeros(2).cuda()
    dist.reduce_scatter_tensor(part, torch.ones(2).cuda())
    assert part.tolist() == [1, 1]
    if torch.cuda.is_available() and dist.is_nccl_available():
        torch.cuda.nccl.version()


def wrapped_ddp():
    net = nn.parallel.DistributedDataParallel(model().cuda(), device_ids=[0], output_device=0, find_unused_parameters=True, broadcast_buffers=False)
    trains(net)
    with net.no_sync():
        net(torch.ones(6, 4).cuda()).sum().backward()
    assert isinstance(net.module, nn.Module) and all(key.startswith("module.") for key in net.state_dict())
    trains(nn.parallel.DistributedDataParallel(model().to(0), [0], gradient_as_bucket_view=True, static_graph=True))
    sampler = torch.utils.data.distributed.DistributedSampler(range(4), shuffle=True)
    sampler.set_epoch(1)
    assert len(list(sampler)) == 4


def sync_batch_norm():
    net = nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))).cuda()
    net = nn.parallel.DistributedDataParallel(net, device_ids=[torch.cuda.current_device()])
    net(torch.randn(2, 3, 8, 8).cuda()).sum().backward()


def meshes():
    from torch.distributed.device_mesh import init_device_mesh

    mesh = init_device_mesh("cuda", (1,), mesh_dim_names=("dp",))
    assert mesh.size() == 1 and mesh.device_type


def group_ends():
    dist.barrier()
    dist.destroy_process_group()
    assert not dist.is_initialized()


# -- others


def checkpointing():
    from torch.utils import checkpoint
    from torch.utils.checkpoint import checkpoint as run

    net, x = model().cuda(), torch.ones(6, 4).cuda().requires_grad_()
    run(net, x, use_reentrant=False).sum().backward()
    run(net, x, use_reentrant=True).sum().backward()
    checkpoint.checkpoint(net, x, use_reentrant=False, preserve_rng_state=False).sum().backward()
    checkpoint.checkpoint_sequential(net, 2, x, use_reentrant=False).sum().backward()
    with autocast():
        run(net, x, use_reentrant=False).sum().backward()
    run(lambda a, scale: net(a) * scale, x, scale=2.0, use_reentrant=False).sum().backward()
    assert x.grad is not None


def threads():
    seen = []

    def work():
        seen.append(torch.ones(2).cuda().is_cuda and torch.zeros(2, device="cuda:0").is_cuda)

    class Own(threading.Thread):
        def run(self):
            work()

    for thread in (threading.Thread(target=work), Own()):
        thread.start()
        thread.join()
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(2) as pool:
        pool.submit(work).result()
    assert seen == [True] * 3


def recurrent_layers():
    from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pack_sequence

    x = torch.randn(2, 5, 4).cuda()
    for kind in (nn.LSTM, nn.GRU, nn.RNN):
        layer = kind(4, 3, num_layers=2, batch_first=True, bidirectional=True, dropout=0.1).cuda()
        layer.flatten_parameters()
        layer(x)[0].sum().backward()
        for lengths in ([5, 3], torch.tensor([5, 3])):
            packed = pack_padded_sequence(x, lengths, batch_first=True)
            out, sizes = pad_packed_sequence(layer(packed)[0], batch_first=True)
            assert out.shape == (2, 5, 6) and sizes.tolist() == [5, 3]
            on_cuda(out)
            out.sum().backward()
        layer(pack_padded_sequence(x, torch.tensor([3, 5]), batch_first=True, enforce_sorted=False))
    pack_sequence([torch.ones(3, 4).cuda(), torch.ones(2, 4).cuda()])


def functions_of_autograd():
    x = torch.ones(2, device="cuda", requires_grad=True)
    torch.autograd.grad(x.pow(2).sum(), x, create_graph=True)[0].sum().backward()

    class Moves(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * torch.full((2,), 2.0, device="cuda") + torch.zeros(2).cuda()

    Moves.apply(x).sum().backward()
    torch.func.vmap(lambda v: v * 2)(x), torch.func.grad(lambda v: v.pow(2).sum())(x)


def modules_by_name():
    assert torch.get_device_module("cuda") is torch.cuda and getattr(torch, "cuda") is torch.cuda
    getattr(torch, torch.ones(1).cuda().device.type).synchronize()
    getattr(torch, torch.device("cuda").type).empty_cache()
    torch.utils.data.get_worker_info()


def accelerator():
    a = torch.accelerator
    device = a.current_accelerator()
    assert a.is_available() and device.type == "cuda" and a.device_count() == 1
    on_cuda(torch.ones(2).to(device), torch.ones(2, device=a.current_accelerator(check_available=True)))
    a.set_device_index(0), a.synchronize(), a.synchronize(0), a.current_device_index(), a.current_stream()
    with a.device_index(0):
        pass
    for name in ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved", "memory_stats", "reset_peak_memory_stats", "reset_accumulated_memory_stats", "empty_cache"):
        getattr(a, name)()
    a.set_stream(torch.cuda.current_stream())
    model().to(a.current_accelerator().type)


def subprocesses():
    import subprocess

    code = "import torch; print(torch.ones(1).cuda().is_cuda)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "True"


def every_public_name():
    """Each name of torch.cuda and torch.accelerator answers when it is called without arguments, or says clearly what it misses."""
    asks = {"caching_allocator_alloc", "set_stream"}
    for module in (torch.cuda, torch.accelerator):
        for name in getattr(module, "__all__", None) or [n for n in dir(module) if not n.startswith("_")]:
            value = getattr(module, name)
            if not callable(value) or isinstance(value, type) and issubclass(value, BaseException) or name in asks or name.endswith("Storage"):
                continue
            if name in ("deprecated", "Optional"):
                continue
            try:
                value()
            except TypeError as error:
                assert "argument" in str(error), (name, error)
            except Exception as error:
                assert type(error).__name__ == "CannotCarry", (module.__name__, name, error)


def batch_norm_in_evaluation_mode():
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(144, 1)).cuda()
    net[1].running_var.fill_(4.0)
    net[1].eval()
    x = torch.ones(2, 3, 8, 8, device="cuda", requires_grad=True)
    net(x).sum().backward()
    wanted = torch.autograd.grad(net[3](net[2](net[0](x) / (4.0 + 1e-5) ** 0.5)).sum(), x)[0]
    assert torch.allclose(x.grad, wanted, atol=1e-5) and net[1].weight.grad.abs().sum() > 0
    trains(nn.Sequential(nn.BatchNorm1d(4).eval(), nn.Linear(4, 1)).cuda())


def refused_graph():
    torch.cuda.CUDAGraph()


def refused_capture():
    with torch.cuda.graph(None):
        pass


def refused_extension():
    from torch.utils.cpp_extension import load

    load(name="kernels", sources=["a.cpp", "b.cu"])


def refused_inline():
    from torch.utils import cpp_extension

    cpp_extension.load_inline(name="kernels", cpp_sources="", cuda_sources="__global__ void f() {}")


def refused_jiterator():
    torch.cuda.jiterator._create_jit_fn("template <typename T> T f(T x) { return x; }")


def main():
    chosen = sys.argv[1:]
    functions = [value for value in globals().values() if callable(value) and getattr(value, "__module__", "") == "__main__" and value.__code__.co_argcount == 0 and value not in (main, model, on_cuda)]
    for function in functions:
        if chosen and function.__name__ not in chosen:
            continue
        outcome = "ok"
        try:
            function()
        except BaseException as error:
            outcome = f"{type(error).__name__}: {str(error)[:400]}"
            frames = [frame for frame in traceback.extract_tb(error.__traceback__)]
            outcome += " @ " + " > ".join(f"{os.path.basename(frame.filename)}:{frame.lineno}" for frame in frames[-4:])
        print(json.dumps([function.__name__, outcome]), flush=True)


if __name__ == "__main__":
    main()
