"""fio jobs as processes of a simulation: what is taken over, and what is refused."""

import shutil

import pytest

from schedlab.errors import SpecError
from schedlab.kinds.fio_processes import processes_of_job
from schedlab.store.process_files import processes_of
from schedlab_sim.predict.predict import loads_of, predict
from schedlab_sim.simulation import Simulation

pytestmark = pytest.mark.skipif(shutil.which("fio") is None, reason="needs fio")
GIB = 1 << 30
SHARED = "[global]\nioengine=io_uring\ndirect=1\nfilename=/dev/sdb\nruntime=10\ntime_based\n"


def job(tmp_path, text):
    path = tmp_path / "load.fio"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ("stonewall", "stonewall is not simulated"), ("rate_iops=50", "rate_iops=50"),
        ("bssplit=4k/50:8k/50", "bssplit"), ("rw=randtrim", "rw=randtrim"),
        ("ioengine=mmap", "ioengine=mmap"), ("bs=4k,64k", "bs=4k,64k"), ("verify=md5", "verify"),
        ("fsync=8", "fsync with direct=1"), ("random_distribution=zipf", "zipf"),
        ("offset=9g", "beyond its device"),
    ],
)  # fmt: skip
def test_what_no_simulated_process_does_is_refused_by_name(tmp_path, options, word):
    path = job(tmp_path, f"{SHARED}[a]\nrw=randread\n[b]\n{options}\n")
    with pytest.raises(SpecError, match=word) as caught:
        processes_of_job(path)(8 * GIB)
    assert "[b]" in str(caught.value)
    assert caught.value.hint


def test_clones_have_a_file_each_where_the_job_names_none(tmp_path):
    path = job(tmp_path, "[a]\nrw=randread\nnumjobs=2\n[b]\nrw=read\n[c]\nrw=read\nfilename=x\n")
    made = processes_of_job(path)(8 * GIB)
    places = [[int(each[key]) for key in ("offset", "span")] for each in made]
    assert places == [[at * 2 * GIB, 2 * GIB] for at in range(4)]


def test_a_job_is_predicted_like_the_same_processes(tmp_path):
    path = job(tmp_path, f"{SHARED}[reader]\nrw=randread\nbs=4k\niodepth=32\n")
    (load,) = loads_of(None, None, path)
    found = predict("sd-card", load, "none,bfq")
    assert (found.code != "outside", list(found.rates)) == (True, ["reader"])
    (load,) = loads_of(None, None, job(tmp_path, f"{SHARED}[r]\nrw=read\nnumjobs=2\n"))
    assert "in one region" in predict("sd-card", load, "none,bfq").outside
    (load,) = loads_of(None, None, job(tmp_path, f"{SHARED}[r]\nrw=read\nstartdelay=1\n"))
    with pytest.raises(SpecError, match="processes with start"):
        predict("sd-card", load, "none,bfq", kernel="6.12")


def test_real_and_simulated_processes_go_through_the_region_of_their_file(tmp_path):
    path = tmp_path / "p.toml"
    path.write_text('[[process]]\ncount = 2\nrecord = "4k"\noffset = "64k"\nspan = "32k"\n')
    places = processes_of(path, GIB, 5)
    assert [(each["offset"], each["span"]) for each in places] == [(65536, 16384), (81920, 16384)]
    start = path.read_text().replace("64k", "0GiB")
    path.write_text(start)
    assert [each["offset"] for each in processes_of(path, GIB)] == [0, 16384]
    one, two = (each["workload"] for each in places)
    assert one["seed"] != two["seed"]
    assert one["span"] == 16384
    log = Simulation(device="sd-card", scheduler="none", processes=str(path), seconds=0.2).run()
    assert log["total"]["requests"] > 0
