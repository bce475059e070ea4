//! What must hold for every device, policy and stream of requests, tried on random ones.

mod common;

use common::{device, requests, run, small, Case};
use proptest::prelude::*;
use schedlab_sim::device::{Parallel, Serial};
use schedlab_sim::engine::Aging;
use schedlab_sim::policy::POLICIES;

fn cases() -> impl Strategy<Value = Case> {
    let aging = prop_oneof![
        Just(Aging::DispatchOvertake),
        Just(Aging::ShorterArrival),
        Just(Aging::EveryArrival)
    ];
    (
        any::<u64>(),
        0..POLICIES.len(),
        aging,
        0.05f64..=1.0,
        0u32..40,
        1u32..12,
        1u32..9,
    )
        .prop_map(
            |(seed, policy, aging, alpha, buffer, depth, in_flight)| Case {
                seed,
                policy: POLICIES[policy].0,
                aging,
                alpha,
                buffer,
                depth,
                in_flight,
                count: 300,
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn every_request_completes_once_and_never_before_it_arrives(case in cases(), parallel: bool) {
        let requests = requests(&case, true);
        let log = if parallel {
            run(&case, Parallel::new(&device(&case), case.seed).unwrap(), &requests).1
        } else {
            run(&case, Serial::new(&device(&case)), &requests).1
        };
        let mut indices: Vec<u64> = log.iter().map(|entry| entry.command.index).collect();
        indices.sort_unstable();
        prop_assert_eq!(indices, (0..requests.len() as u64).collect::<Vec<_>>());
        for entry in &log {
            let command = entry.command;
            prop_assert_eq!(command.arrival_ns, requests[command.index as usize].arrival_ns());
            prop_assert!(command.admitted_ns >= command.arrival_ns);
            prop_assert!(command.dispatched_ns >= command.admitted_ns);
            prop_assert!(entry.completed_ns >= command.dispatched_ns);
        }
    }

    #[test]
    fn fcfs_keeps_the_order_of_arrival(case in cases()) {
        let case = Case { policy: "fcfs", ..case };
        let (_, mut log, _) = run(&case, Serial::new(&device(&case)), &requests(&case, false));
        log.sort_by_key(|entry| entry.command.index);
        prop_assert!(log.windows(2).all(|two| two[0].completed_ns <= two[1].completed_ns));
    }

    #[test]
    fn busy_time_is_the_sum_of_service(case in cases()) {
        let (report, log, _) = run(&case, Serial::new(&device(&case)), &requests(&case, true));
        let service: u64 = log.iter().map(|d| d.completed_ns - d.command.dispatched_ns).sum();
        prop_assert_eq!(report.device.busy_ns[0], service);
        prop_assert!(service <= report.elapsed_ns);
    }

    #[test]
    fn the_tables_stay_inverse_and_no_page_is_lost(case in cases(), collect in 0..3usize) {
        let mut spec = device(&case);
        spec.ftl.collect = small::COLLECT[collect];
        spec.ftl.precondition = small::PRECONDITION[case.seed as usize % 3];
        let device = Parallel::new(&spec, case.seed).unwrap();
        let before = device.ftl().audit().unwrap();
        let full = u64::from(device.ftl().logical_pages());
        prop_assert!(before == 0 || before == full);
        let (report, _, device) = run(&case, device, &requests(&case, false));
        let after = device.ftl().audit().unwrap();
        let all_kept = if before == full { after == full } else { after <= full };
        prop_assert!(all_kept, "{} of {}", after, full);
        let usage = report.device.ftl.unwrap();
        prop_assert!(usage.write_amplification >= 1.0);
        if before == 0 {
            prop_assert!(after <= usage.host_programs);
        }
    }

    #[test]
    fn without_aging_all_rules_are_one(case in cases()) {
        let requests = requests(&case, false);
        let rules = [Aging::DispatchOvertake, Aging::ShorterArrival, Aging::EveryArrival];
        let runs = rules.map(|aging| {
            let case = Case { alpha: 1.0, aging, ..case.clone() };
            run(&case, Serial::new(&device(&case)), &requests).1
        });
        prop_assert_eq!(&runs[0], &runs[1]);
        prop_assert_eq!(&runs[0], &runs[2]);
    }

    #[test]
    fn counting_every_arrival_becomes_fcfs_as_alpha_vanishes(case in cases()) {
        let requests = requests(&case, false);
        let order = |policy| {
            let case = Case { policy, alpha: 1e-12, aging: Aging::EveryArrival, ..case };
            let log = run(&case, Serial::new(&device(&case)), &requests).1;
            log.iter().map(|entry| entry.command.index).collect::<Vec<_>>()
        };
        prop_assert_eq!(order("ts"), order("fcfs"));
    }

    #[test]
    fn the_same_seed_gives_the_same_bytes(case in cases()) {
        let bytes = || {
            let device = Parallel::new(&device(&case), case.seed).unwrap();
            let (report, log, _) = run(&case, device, &requests(&case, true));
            (serde_json::to_string(&report).unwrap(), log)
        };
        prop_assert_eq!(bytes(), bytes());
    }
}
