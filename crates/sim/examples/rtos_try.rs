use tanada_sim::rtos::{receiver::*, *};
use tanada_sim::machines;
use tanada_policy::{DeliverySite, deliveries::find};
fn main(){
  let args: Vec<String> = std::env::args().skip(1).collect();
  let get=|k:&str,d:u64| args.iter().find_map(|a| a.strip_prefix(&format!("{k}="))).map_or(d,|v| v.parse().unwrap());
  let sets: Vec<&String> = args.iter().filter(|a| a.contains('.')).collect();
  let m = machines::find("nec").unwrap().overridden(&sets).unwrap();
  let (n, seeds, e0, e1, phase)=(get("n",9),get("seeds",20),get("e0",0),get("e1",0),get("phase",0));
  if get("pieces",0)==1 { for (p,n) in code::Code::shipped().pieces.iter().zip(code::PIECES) { println!("{n}: {} {}", p.instructions(), p.before.len()+p.behind.len()); } }
  let gaps: Vec<u64> = args.iter().find_map(|a| a.strip_prefix("gaps=")).unwrap_or("11059").split(',').map(|g| g.parse().unwrap()).collect();
  let sender = if get("core",0)==1 {Sender::Core} else {Sender::Outside};
  for gap in gaps {
  let mut sum: Vec<(&str,[f64;16])> = vec![]; let mut pcs: Vec<std::collections::BTreeMap<(usize,usize),(f64,f64)>> = vec![];
  for d in ["immediate","periodic","batched","adaptive"] {
    let mut v=[0f64;16]; let mut pm=std::collections::BTreeMap::new();
    for seed in 0..seeds {
      let setup=Setup{sender, times:(0..n).map(|i| 2000+phase+i*gap+ (seed*7919%1000)).collect(), capacity:32, extra:[e0,e1],handler_services:get("hs",0) as usize};
      let site=DeliverySite{sender_arms:true,headroom:16,batch:9,..DeliverySite::new(get("period",400_000),32)};
      let del=(find(d).unwrap().make)(&site);
      let t=std::time::Instant::now();
      let r=receive_all(&m,&setup,&*del,&RtosOptions{seed:Some(seed),spans:get("spans",0)==1 && seed==0,watch:None}).unwrap();
      let el=t.elapsed().as_secs_f64();
      let c=&r.outcome.cores[r.outcome.cores.len()-1];
      for s in &r.outcome.spans { println!("{d} {} {} {}", s.id,s.start,s.end); }
      let a=[c.of(&[NOTIFY]),c.of(&[RECEIVE]),c.of(&[TIMER]),c.of(&LAYER2)];
      for (&(a,p),&(n,cy)) in &c.pieces { if (1..=6).contains(&a) { let e=pm.entry((if a<=3 {0} else {1},p)).or_insert((0f64,0f64)); e.0+=n as f64/seeds as f64; e.1+=cy as f64/seeds as f64; } } let mut k=0; for x in a { v[k]+=x.own as f64; v[k+1]+=x.service as f64; v[k+2]+=x.switch as f64; k+=3; }
      v[12]+=(c.busy()-c.of(&[IDLE]).total()) as f64; v[13]+=r.notices as f64; v[14]+=c.caches.fetch_misses as f64; v[15]+=c.caches.access_misses as f64;
      if seed==0 && get("time",0)==1 {println!("{d} {el} s lost {} idle {} end {}",r.lost,c.of(&[IDLE]).total(),r.outcome.end);}
    }
    for x in &mut v { *x/=seeds as f64; }
    sum.push((d,v)); pcs.push(pm);
  }
  let t=sum[0].1[12];
  println!("gap {gap}: total imm {t:.0} per msg {:.0}", t/n as f64);
  { let (mut price,mut count)=(0f64,0f64); let keys: std::collections::BTreeSet<_>=pcs[0].keys().chain(pcs[1].keys()).copied().collect(); for k in keys { let (n0,c0)=pcs[0].get(&k).copied().unwrap_or((0.,0.)); let (n1,c1)=pcs[1].get(&k).copied().unwrap_or((0.,0.)); let (p0,p1)=(if n0>0. {c0/n0} else {c1/n1}, if n1>0. {c1/n1} else {c0/n0}); price+=(n0+n1)/2.*(p0-p1); count+=(n0-n1)*(p0+p1)/2.; if get("detail",0)==1 {println!("   {:?} {} n {:.1} {:.1} cyc {:.0} {:.0} price {:.2} count {:.2}", k.0, code::PIECES[k.1/2], n0,n1,p0,p1, 100.*(n0+n1)/2.*(p0-p1)/t, 100.*(n0-n1)*(p0+p1)/2./t);} } println!("L2 price {:.2} count {:.2}", 100.*price/t, 100.*count/t); }
  for (d,v) in &sum {
    let p=|i:usize| 100.0*(sum[0].1[i]-v[i])/t;
    let q=|i:usize| 100.0*v[i]/t;
    println!("{d:10} total {:7.0} saves {:5.1} | ntf {:4.1} {:4.1} {:4.1} rcv {:4.1} {:4.1} {:4.1} tim {:4.1} {:4.1} L2 {:5.1} {:5.1} {:5.1} | saved: ntf {:4.1} rcv {:4.1}({:.1},{:.1},{:.1}) tim {:4.1} L2 {:5.2} ({:.2},{:.2},{:.2}) notices {:.1} mi {:.0} md {:.0}", v[12], p(12), q(0),q(1),q(2),q(3),q(4),q(5),q(6),q(7)+q(8),q(9),q(10),q(11), p(0)+p(1)+p(2), p(3)+p(4)+p(5),p(3),p(4),p(5), p(6)+p(7)+p(8), p(9)+p(10)+p(11),p(9),p(10),p(11), v[13],v[14],v[15]);
  }}
}
